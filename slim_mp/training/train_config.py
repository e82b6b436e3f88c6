"""What a training run can be told, as frozen values that name their units."""

import dataclasses
from collections.abc import Callable

from slim_mp import data, distribution
from slim_mp.loss_scale import ExponentialUpdateLossScaleManager, FixedLossScaleManager
from slim_mp.precision import Precision
from slim_mp.training import optimizers


@dataclasses.dataclass(frozen=True)
class LossScaleConfig:
    """How the loss is scaled.

    Attributes:
      fixed: the scale, or None for a dynamic one; the other fields are for that.
      auto: whether a new run measures its first batches to choose the scale of the first step.
      init: scale of the first step otherwise.
      incr_every_n_steps, decr_every_n_nan_or_inf, incr_ratio, decr_ratio, minimum: as in
        `ExponentialUpdateLossScaleManager`.
    """

    fixed: float | None = None
    auto: bool = False
    init: float = 2.0**15
    incr_every_n_steps: int = 2000
    decr_every_n_nan_or_inf: int = 2
    incr_ratio: float = 2.0
    decr_ratio: float = 0.8
    minimum: float = 1.0

    def describe(self):
        """Says in a few words how the loss is scaled."""
        if self.fixed is not None:
            return f"fixed loss scale {self.fixed:g}"
        return f"dynamic loss scale{' from measurement' if self.auto else f' {self.init:g}'}"

    def make_manager(self):
        """Makes the loss-scale manager, in the current graph."""
        if self.fixed is not None:
            return FixedLossScaleManager(self.fixed)
        return ExponentialUpdateLossScaleManager(
            self.init,
            self.incr_every_n_steps,
            self.decr_every_n_nan_or_inf,
            self.incr_ratio,
            self.decr_ratio,
            self.minimum,
        )


@dataclasses.dataclass(frozen=True)
class WarmStartConfig:
    """Which weights a new run begins with.

    Attributes:
      checkpoint_path: file, prefix or folder of a checkpoint; None initialises at random.
      exclude_scopes: comma-separated scopes that are not restored, or None.
      ignore_missing_vars: initialise variables that the checkpoint lacks instead of failing.
    """

    checkpoint_path: str | None = None
    exclude_scopes: str | None = None
    ignore_missing_vars: bool = False


@dataclasses.dataclass(frozen=True)
class ValidationConfig:
    """How a run is evaluated while it trains.

    Attributes:
      every_n_steps: steps between two evaluations.
      network_fn: function of images as for training, but built for inference.
      dataset: a `data.Dataset`.
      input: a `data.InputConfig`; its batch_size is that of one clone.
      keep_best: whether the checkpoint with the highest top-1 is kept in the folder `best`.
      stop_at_top1: share of right answers at which the run ends, or None.
    """

    every_n_steps: int
    network_fn: Callable
    dataset: data.Dataset
    input: data.InputConfig
    keep_best: bool = False
    stop_at_top1: float | None = None


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """Everything about a training run but the network and the dataset.

    Attributes:
      train_dir: folder for checkpoints, event files and metrics.jsonl.
      precision: a `Precision`.
      input: a `data.InputConfig`; its batch_size is that of one clone.
      clones: a `distribution.Clones`.
      prefetch_to_device: whether the next batch is copied to the GPUs while a step computes.
      loss_scale: a `LossScaleConfig`.
      optimizer: an `optimizers.OptimizerConfig`.
      learning_rate: an `optimizers.LearningRateConfig`.
      per_clone_schedule: whether an epoch of the learning rate counts the images of one clone, as
        in slim, so that a run of several clones decays that many times later.
      warm_start: a `WarmStartConfig`.
      label_smoothing: share of the label's probability that is spread over all classes.
      moving_average_decay: decay of moving averages of the weights, or None for no averages.
      clip_gradient_norm: largest norm of all unscaled gradients together, or None.
      clip_gradient_value: largest absolute value in an unscaled gradient, or None.
      trainable_scopes: comma-separated scopes of the variables to train, or None for all.
      freeze_batch_norm: whether batch norm outside those scopes works with its moving statistics
        and leaves them as they are.
      batch_norm_decay: decay of the statistics of batch norm, or None for the network's own.
      max_number_of_steps: global step at which training ends, or None for no end.
      max_consecutive_skips: steps in a row that may be skipped before the run ends.
      log_every_n_steps: steps between two log lines.
      gradient_report_every_n_steps: steps between two reports of the share of the gradient that is
        zero in half, by layer, or 0 for none.
      save_summaries_secs: seconds between two entries in the event file.
      save_interval_secs: seconds between two checkpoints.
      seed: seed of initialisation, input order, augmentation and dropout, or None.
      resume: "auto" goes on from a checkpoint of train_dir if there is one, "must" insists on one,
        "never" on none.
      metrics_file: path of the JSON-lines file, or None for metrics.jsonl in train_dir.
      validation: a `ValidationConfig`, or None for a run that is not evaluated.
    """

    train_dir: str
    precision: Precision
    input: data.InputConfig
    clones: distribution.Clones
    prefetch_to_device: bool = True
    loss_scale: LossScaleConfig = LossScaleConfig()
    optimizer: optimizers.OptimizerConfig = dataclasses.field(
        default_factory=optimizers.OptimizerConfig
    )
    learning_rate: optimizers.LearningRateConfig = dataclasses.field(
        default_factory=optimizers.LearningRateConfig
    )
    per_clone_schedule: bool = False
    warm_start: WarmStartConfig = WarmStartConfig()
    label_smoothing: float = 0.0
    moving_average_decay: float | None = None
    clip_gradient_norm: float | None = None
    clip_gradient_value: float | None = None
    trainable_scopes: str | None = None
    freeze_batch_norm: bool = False
    batch_norm_decay: float | None = None
    max_number_of_steps: int | None = None
    max_consecutive_skips: int = 200
    log_every_n_steps: int = 10
    gradient_report_every_n_steps: int = 0
    save_summaries_secs: float = 600.0
    save_interval_secs: float = 600.0
    seed: int | None = None
    resume: str = "auto"
    metrics_file: str | None = None
    validation: ValidationConfig | None = None

    @property
    def images_per_step(self):
        """Images of one global step, over all clones."""
        return self.input.batch_size * len(self.clones.devices)

    @property
    def images_of_schedule(self):
        """Images that one global step counts for in the learning-rate schedule."""
        return self.input.batch_size if self.per_clone_schedule else self.images_per_step
