"""The input of training and evaluation with tf.data: read, shuffle, decode, preprocess, batch.

A training stream is endless. With a seed, example k of it (which record, distorted how) is a
function of the seed and k only, so that a run that stops after k examples goes on with example k.
"""

import dataclasses
import itertools
import os

from slim_mp import decoding, preprocessing
from slim_mp.compat import tf
from slim_mp.datasets import Dataset, open_dataset
from slim_mp.errors import DataError, UsageError
from slim_mp.input_errors import INPUT_ERRORS, explain_input_error

# Records that wait to be drawn at random take up no more than this.
SHUFFLE_BUFFER_BYTES = 256 * 2**20
# Files that are read side by side. Not num_readers: the order of the examples depends on it.
_FILES_AT_A_TIME = 16
# From this many files for each shard on, whole files are dealt out instead of records.
_FILES_PER_SHARD = 16
_PREFETCHED_BATCHES = 2


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
      num_readers: record files that are read in parallel.
      num_preprocessing_threads: threads that decode and preprocess.
      seed: an int that makes the training stream repeatable, or None.
      shard_index: which of the disjoint shards of the training split this worker reads.
      num_shards: the number of shards.
      start_example: the position in the (shard's) training stream to start at.
      crops: crops of each image of an evaluation: 1, or 10 as in Krizhevsky et al. (2012).
      central_fraction: share of each side that the central crop of an evaluation keeps, or None for
        that of the preprocessing.
    """

    preprocessing: str
    image_size: int
    channels: int
    batch_size: int
    compute_dtype: tf.DType
    labels_offset: int = 0
    num_readers: int = 4
    num_preprocessing_threads: int = 4
    seed: int | None = None
    shard_index: int = 0
    num_shards: int = 1
    start_example: int = 0
    crops: int = 1
    central_fraction: float | None = None

    def __post_init__(self):
        preprocessing.get_preprocessing(self.preprocessing)
        if self.channels not in (1, 3):
            raise UsageError(f"channels is {self.channels}; it must be 1 or 3.")
        for name in ("image_size", "batch_size", "num_readers", "num_preprocessing_threads"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        for name in ("labels_offset", "start_example"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} is {getattr(self, name)}; it must not be negative.")
        if not 0 <= self.shard_index < self.num_shards:
            raise UsageError(
                f"shard_index is {self.shard_index}; with {self.num_shards} shards it must be 0 to "
                f"{self.num_shards - 1}."
            )
        if self.crops not in (1, 10):
            raise UsageError(f"crops is {self.crops}; it must be 1 or 10.")
        if self.central_fraction is not None and not 0 < self.central_fraction <= 1:
            raise UsageError(
                f"central_fraction is {self.central_fraction}; it must be above 0 and at most 1."
            )


def training_batches(dataset, config):
    """The endless, shuffled stream of training batches.

    Each epoch is a new permutation of the (shard's) examples: the files in random order, read
    16 at a time, through a shuffle buffer of at most `SHUFFLE_BUFFER_BYTES`, which is a full
    shuffle for smaller sets. No example is lost between epochs. The synthetic set repeats one
    fixed batch, so that the input costs next to nothing.

    Args:
      dataset: a `Dataset`.
      config: an `InputConfig`.

    Returns:
      A tf.data.Dataset of (images, labels): [batch_size, image_size, image_size, channels] in
      the compute dtype, and int64 [batch_size] in [0, num_classes - labels_offset).

    Raises:
      UsageError: if labels_offset leaves no class.
      DataError: if the shard has no example.
    """
    _check_classes(dataset, config)
    if not dataset.files:
        return _synthetic_training_batches(dataset, config)
    seed = int.from_bytes(os.urandom(4), "little") if config.seed is None else config.seed
    records = _training_records(dataset, config, seed)

    def prepare(index, serialized):
        return _prepare(serialized, dataset, config, _pair(seed, index))

    indices = tf.data.Dataset.range(config.start_example, tf.int64.max)
    # Examples of different shards must not be distorted alike.
    indices = indices.map(lambda k: k * config.num_shards + config.shard_index)
    examples = tf.data.Dataset.zip((indices, records)).map(
        prepare,
        num_parallel_calls=config.num_preprocessing_threads,
        deterministic=config.seed is not None,
    )
    batches = examples.batch(config.batch_size, drop_remainder=True).prefetch(_PREFETCHED_BATCHES)
    return batches.with_options(_options(config, deterministic=config.seed is not None))


def evaluation_batches(dataset, config, with_names=False):
    """Each example of a split exactly once, in the order of the files.

    Shards, the seed and the start of the config are for training only.

    Args:
      dataset: a `Dataset`.
      config: an `InputConfig`.
      with_names: whether the name of each example is wanted.

    Returns:
      A tf.data.Dataset of (images, labels) as for training, without distortion; the last batch
      is smaller if batch_size does not divide the number of examples. With ten crops the images are
      [batch, 10, image_size, image_size, channels]. With names it is of (images, labels, names),
      names string [batch]: the path of an image file; of a record its image/filename or, where it
      has none, FILE#NUMBER, the record file without its folder and the record counted from 0; of a
      synthetic image its number.

    Raises:
      UsageError: if labels_offset leaves no class.
    """
    _check_classes(dataset, config)
    if dataset.files:
        starts = [0, *itertools.accumulate(dataset.examples_per_file[:-1])]

        def prepare(number, serialized):
            example = _prepare(serialized, dataset, config)
            if not with_names:
                return example
            return *example, _name(number, serialized, starts, dataset)

        examples = (
            tf.data.TFRecordDataset(list(dataset.files))
            .enumerate()
            .map(prepare, num_parallel_calls=config.num_preprocessing_threads)
        )
    else:
        examples = _synthetic_examples(dataset, config, dataset.num_examples)
        if with_names:
            examples = examples.enumerate().map(lambda n, e: (*e, tf.strings.as_string(n)))
    batches = examples.batch(config.batch_size).prefetch(_PREFETCHED_BATCHES)
    return batches.with_options(_options(config, deterministic=True))


def _name(number, serialized, starts, dataset):
    """The image/filename of the `number`-th record of a split, or where it lies."""
    features = {"image/filename": tf.FixedLenFeature([], tf.string, "")}
    name = tf.io.parse_single_example(serialized, features)["image/filename"]
    file = tf.searchsorted(tf.constant(starts, tf.int64), [number], side="right")[0] - 1
    base = tf.gather([os.path.basename(path) for path in dataset.files], file)
    place = tf.strings.as_string(number - tf.gather(tf.constant(starts, tf.int64), file))
    return tf.where(tf.equal(name, ""), tf.strings.join([base, "#", place]), name)


def _check_classes(dataset, config):
    if config.labels_offset >= dataset.num_classes:
        raise UsageError(
            f"A labels offset of {config.labels_offset} leaves no class of the "
            f"{dataset.num_classes} of '{dataset.name}' (--labels_offset)."
        )


def _options(config, deterministic):
    options = tf.data.Options()
    options.deterministic = deterministic
    options.threading.private_threadpool_size = config.num_preprocessing_threads
    return options


def _pair(seed, index):
    """An int64 [2] seed of stateless operations from an int and an int64 tensor."""
    return tf.stack([tf.constant(seed, tf.int64), index])


def _prepare(serialized, dataset, config, seed=None):
    """From a record to an image in the compute dtype and a label; training if there is a seed."""
    encoded, label = decoding.parse_example(serialized, dataset, config.labels_offset)
    image = preprocessing.preprocess_encoded(
        config.preprocessing,
        encoded,
        config.channels,
        config.image_size,
        config.image_size,
        is_training=seed is not None,
        seed=seed,
    )
    return tf.cast(image, config.compute_dtype), label


@dataclasses.dataclass(frozen=True)
class _Shard:
    """The part of each file that a worker reads: from record `first` on, each `step`-th."""

    files: tuple
    firsts: tuple
    step: int
    num_examples: int


def _shard(dataset, config):
    index, number = config.shard_index, config.num_shards
    if len(dataset.files) >= _FILES_PER_SHARD * number:
        files = dataset.files[index::number]
        num_examples = sum(dataset.examples_per_file[index::number])
        shard = _Shard(files, (0,) * len(files), 1, num_examples)
    else:
        starts = itertools.accumulate(dataset.examples_per_file[:-1], initial=0)
        firsts = tuple((index - start) % number for start in starts)
        num_examples = len(range(index, dataset.num_examples, number))
        shard = _Shard(dataset.files, firsts, number, num_examples)
    if not shard.num_examples:
        raise DataError(
            f"The split '{dataset.split}' of '{dataset.name}' has {dataset.num_examples} examples, "
            f"too few for {number} workers; use fewer workers."
        )
    return shard


def _training_records(dataset, config, seed):
    """The endless stream of serialized examples, from `config.start_example` on."""
    shard = _shard(dataset, config)
    record_bytes = max(1, dataset.num_bytes // dataset.num_examples)
    buffer_size = max(1, min(shard.num_examples, SHUFFLE_BUFFER_BYTES // record_bytes))

    def epoch_records(epoch):
        files = _files_in_random_order(shard, seed, epoch)
        cycle = min(_FILES_AT_A_TIME, len(shard.files))
        records = files.interleave(
            lambda path, first: tf.data.TFRecordDataset(path).skip(first).shard(shard.step, 0),
            cycle_length=cycle,
            num_parallel_calls=min(config.num_readers, cycle),
            deterministic=config.seed is not None,
        )
        # Shuffling draws from the pair of the graph's seed, here that of this function, and `seed`.
        tf.set_random_seed(seed)
        return records.shuffle(buffer_size, seed=epoch, reshuffle_each_iteration=False)

    first_epoch, skipped = divmod(config.start_example, shard.num_examples)
    epochs = tf.data.Dataset.range(first_epoch, tf.int64.max)
    return epochs.flat_map(epoch_records).skip(skipped)


def _files_in_random_order(shard, seed, epoch):
    draws = tf.random.stateless_uniform([len(shard.files)], _pair(seed, epoch))
    order = tf.argsort(draws, stable=True)
    paths = tf.gather(tf.constant(shard.files), order)
    firsts = tf.gather(tf.constant(shard.firsts, tf.int64), order)
    return tf.data.Dataset.from_tensor_slices((paths, firsts))


def _synthetic_examples(dataset, config, count):
    shape = [config.image_size, config.image_size, config.channels]

    def make(index):
        seed = _pair(config.seed or 0, index)
        image = tf.random.stateless_uniform(shape, seed, -1.0, 1.0)
        classes = dataset.num_classes - config.labels_offset
        label = tf.random.stateless_uniform([], seed, 0, classes, tf.int64)
        return tf.cast(image, config.compute_dtype), label

    indices = tf.data.Dataset.range(count).map(lambda k: k * config.num_shards + config.shard_index)
    return indices.map(make, num_parallel_calls=config.num_preprocessing_threads)


def _synthetic_training_batches(dataset, config):
    examples = _synthetic_examples(dataset, config, config.batch_size)
    batches = examples.batch(config.batch_size, drop_remainder=True).cache().repeat()
    return batches.prefetch(_PREFETCHED_BATCHES).with_options(_options(config, deterministic=True))


__all__ = [
    "INPUT_ERRORS",
    "SHUFFLE_BUFFER_BYTES",
    "Dataset",
    "InputConfig",
    "evaluation_batches",
    "explain_input_error",
    "open_dataset",
    "training_batches",
]
