"""What the input of a network must be like, as a frozen value."""

import dataclasses

from slim_mp import preprocessing
from slim_mp.compat import tf
from slim_mp.data.augmentation import AugmentationConfig
from slim_mp.data.dataset_service import check_address
from slim_mp.errors import UsageError
from slim_mp.preprocessing.colours import FULL

_AT_LEAST = {
    "image_size": 1,
    "batch_size": 1,
    "num_readers": 1,
    "num_preprocessing_threads": 1,
    "labels_offset": 0,
    "start_example": 0,
    "max_bad_records": 0,
}


@dataclasses.dataclass(frozen=True)
class InputConfig:
    """What the input of a network must be like.

    Attributes:
      preprocessing: a style of `preprocessing.PREPROCESSINGS`.
      image_size: height and width of the images, in pixels.
      channels: 1 or 3.
      batch_size: examples in a batch.
      compute_dtype: the tf.DType of the images.
      labels_offset: is subtracted from each label; 1 drops a background class.
      num_readers: record files that are read in parallel, or None for as many as it takes.
      num_preprocessing_threads: threads that decode and preprocess, or None for all cores.
      seed: an int that makes the training stream repeatable, or None.
      shard_index: which of the disjoint shards of the training split this worker reads.
      num_shards: the number of shards.
      start_example: the position in the (shard's) training stream to start at.
      crops: crops of each image of an evaluation: 1, or 10 as in Krizhevsky et al. (2012).
      central_fraction: share of each side that the central crop of an evaluation keeps, or None for
        that of the preprocessing.
      distortion: how much the preprocessing distorts images of training, one of
        `colours.DISTORTIONS`.
      max_bad_records: how many distinct records or image files may be left out for being bad.
      augmentation: an `AugmentationConfig`, for training.
      cache: whether the records or image files are read once and kept in memory.
      dataset_service: address of a tf.data service that makes the training batches, or None.
    """

    preprocessing: str
    image_size: int
    channels: int
    batch_size: int
    compute_dtype: tf.DType
    labels_offset: int = 0
    num_readers: int | None = None
    num_preprocessing_threads: int | None = None
    seed: int | None = None
    shard_index: int = 0
    num_shards: int = 1
    start_example: int = 0
    crops: int = 1
    central_fraction: float | None = None
    distortion: str = FULL
    max_bad_records: int = 0
    augmentation: AugmentationConfig = dataclasses.field(default_factory=AugmentationConfig)
    cache: bool = False
    dataset_service: str | None = None

    def __post_init__(self):
        preprocessing.check_crops(self.preprocessing, self.crops, self.central_fraction)
        if self.channels not in (1, 3):
            raise UsageError(f"channels is {self.channels}; it must be 1 or 3.")
        for name, low in _AT_LEAST.items():
            value = getattr(self, name)
            if value is not None and value < low:
                raise UsageError(f"{name} is {value}; it must be at least {low}.")
        if not 0 <= self.shard_index < self.num_shards:
            raise UsageError(
                f"shard_index is {self.shard_index}; with {self.num_shards} shards it must be 0 to "
                f"{self.num_shards - 1}."
            )
        if self.dataset_service is not None:
            self._check_service()

    def _check_service(self):
        check_address(self.dataset_service)
        # Both need this process.
        for name in ("cache", "max_bad_records"):
            if getattr(self, name):
                raise UsageError(
                    f"--{name} does not work with --dataset_service, whose workers read by "
                    "themselves; leave one of them out."
                )
