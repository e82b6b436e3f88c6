"""Measures a few training batches of a network in float32, for a report of its precision."""

import dataclasses

from absl import logging

from slim_mp import data, distribution
from slim_mp.checkpoints import warm_start
from slim_mp.compat import tf
from slim_mp.data.bad_records import BadRecords
from slim_mp.data.input_errors import INPUT_ERRORS, explain_input_error
from slim_mp.errors import NumericsError
from slim_mp.exponents import LayerExponents, Meter, layers_of, logits_of
from slim_mp.training.train_config import WarmStartConfig
from slim_mp.training.train_graph import classification_loss


@dataclasses.dataclass(frozen=True)
class MeasurementConfig:
    """What to measure.

    Attributes:
      input: a `data.InputConfig`; its images are float32.
      clones: a `distribution.Clones`, of which the first is used.
      warm_start: a `WarmStartConfig`; without a checkpoint the initial weights are measured.
      num_batches: how many batches.
      seed: of the initial weights, the input and dropout.
    """

    input: data.InputConfig
    clones: distribution.Clones
    warm_start: WarmStartConfig = dataclasses.field(default_factory=WarmStartConfig)
    num_batches: int = 4
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Measurement:
    """What was measured.

    Attributes:
      exponents: dict of layer name to `LayerExponents`, the layers in graph order.
      products: dict of layer name to a list of `exponents.Product`.
      loss: the mean loss.
      what: what it is of, for people: dict of str to str.
      batch_size: images in a batch.
    """

    exponents: dict
    products: dict
    loss: float
    what: dict
    batch_size: int


def measure(config, network_fn, dataset):
    """Runs a few training batches forwards and backwards and counts exponents.

    Args:
      config: a `MeasurementConfig`.
      network_fn: as for `train_graph.build_graph`, in float32, built for training.
      dataset: a `data.Dataset`.

    Returns:
      A `Measurement`.

    Raises:
      CheckpointError: if the checkpoint cannot be read or does not fit.
      DataError: if a record cannot be used.
      NumericsError: if the loss is not finite in float32.
    """
    step_input = dataclasses.replace(config.input, compute_dtype=tf.float32, seed=config.seed)
    with tf.Graph().as_default():
        tf.set_random_seed(config.seed)
        with tf.device("/device:CPU:0"):
            bad_records = BadRecords(step_input.max_bad_records)
            batches = data.training_batches(dataset, step_input, bad_records)
            iterator = tf.data.make_initializable_iterator(batches)
            images, labels = iterator.get_next()
        with tf.device(config.clones.devices[0]):
            logits, end_points = network_fn(images)
            loss = classification_loss(labels, logits, end_points)
            meter = Meter(layers_of(logits_of(logits, end_points), tf.float32), loss)
        restore = _restore_function(config.warm_start)
        with tf.Session(config=distribution.session_config(config.clones)) as session:
            session.run([tf.global_variables_initializer(), iterator.initializer])
            restore(session)
            try:
                exponents, mean_loss = _run_batches(session, meter, loss, config.num_batches)
            except INPUT_ERRORS as error:
                explain_input_error(error, dataset, step_input, bad_records)
                raise
    return Measurement(
        exponents,
        {layer.name: layer.products for layer in meter.layers},
        mean_loss,
        _describe(config, network_fn, dataset),
        config.input.batch_size,
    )


def _restore_function(config):
    if not config.checkpoint_path:
        logging.info("No checkpoint is given: these are the initial weights of a new run.")
        return lambda session: None
    plan = warm_start.plan_warm_start(
        config.checkpoint_path,
        tf.global_variables(),
        exclude_scopes=config.exclude_scopes,
        ignore_missing=config.ignore_missing_vars,
    )
    for line in plan.report().splitlines():
        logging.info("%s", line)
    return warm_start.restore_fn(plan)


def _run_batches(session, meter, loss, num_batches):
    sums, losses = {layer.name: LayerExponents() for layer in meter.layers}, []
    for number in range(num_batches):
        values, batch_loss = session.run([meter.fetches, loss])
        if not abs(batch_loss) < float("inf"):
            raise NumericsError(
                f"The loss of batch {number + 1} is {batch_loss} in float32 already: no precision "
                "and no loss scale helps. Look at the checkpoint and the input."
            )
        losses.append(float(batch_loss))
        sums = {name: sums[name] + counted for name, counted in meter.read(values).items()}
    return sums, sum(losses) / num_batches


def _describe(config, network_fn, dataset):
    size = config.input.image_size
    return {
        "network": getattr(network_fn, "name", "network"),
        "weights": config.warm_start.checkpoint_path or "initial ones, no checkpoint",
        "images": f"{config.num_batches} batches of {config.input.batch_size} from {dataset.name} "
        f"({dataset.split}), {size}x{size} pixels",
    }
