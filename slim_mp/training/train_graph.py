"""The graph of a training step: input, clones, losses, gradients, the guarded update."""

import contextlib
import dataclasses

from slim_mp import data
from slim_mp.checkpoints import warm_start
from slim_mp.compat import tf
from slim_mp.data.bad_records import BadRecords
from slim_mp.data.clone_batches import clone_batches
from slim_mp.exponents import Meter, layers_of, logits_of, trained_part
from slim_mp.loss_scale_optimizer import LossScaleOptimizer, all_finite
from slim_mp.random_ops import repeatable_random_ops
from slim_mp.training import batch_norm_layers, optimizers
from slim_mp.training.diagnosis import Replay, keep_batch
from slim_mp.update_ops import assigned_values, repeat_updates

_AUX_LOSS_WEIGHT = 0.4  # Szegedy et al., arXiv:1512.00567, and every slim recipe since.


@dataclasses.dataclass(frozen=True)
class TrainGraph:
    """The tensors and operations of a training graph that the loop needs.

    Attributes:
      train_op: runs one step.
      global_step: int64 variable, attempted steps.
      counters: dict of scalar tensors that each step fetches: the int64 counts after it, and the
        float32 loss, learning_rate and loss_scale it was taken with.
      metrics: dict of further float32 scalar tensors of the step, by their names in metrics.jsonl.
      state: the floating-point variables: weights, statistics, slots and moving averages.
      state_is_finite: bool scalar tensor.
      replay: what `diagnosis.Diagnosis` needs.
      meter: an `exponents.Meter` of the first clone, or None where the config asks for none.
      batch_norms: the `batch_norm_layers.Layers` of the network.
      model_variables: the network's variables, for a warm start.
      loss_scale_variables: state that a checkpoint may lack.
      input_initializer: operation that starts the input.
      bad_records: the `BadRecords` that the input counts in.
    """

    train_op: tf.Operation
    global_step: tf.Variable
    counters: dict
    metrics: dict
    state: list
    state_is_finite: tf.Tensor
    replay: Replay
    meter: Meter | None
    batch_norms: batch_norm_layers.Layers
    model_variables: list
    loss_scale_variables: list
    input_initializer: tf.Operation
    bad_records: BadRecords


def classification_loss(labels, logits, end_points, label_smoothing=0.0):
    """The loss of one clone, without weight decay.

    Args:
      labels: int64 [batch], or float32 [batch, num_classes], the share of each class.
      logits: float32 [batch, num_classes].
      end_points: dict; `AuxLogits` in it, float32 [batch, num_classes], count 0.4 times.
      label_smoothing: share of the label's probability that is spread over all classes
        (Szegedy et al., arXiv:1512.00567).

    Returns:
      float32 scalar, the mean cross entropy.
    """

    def cross_entropy(logits):
        is_mixed = labels.dtype.is_floating
        shares = labels if is_mixed else tf.one_hot(labels, logits.shape[-1], dtype=tf.float32)
        return tf.losses.softmax_cross_entropy(
            shares, logits, label_smoothing=label_smoothing, loss_collection=None
        )

    loss = cross_entropy(logits)
    if "AuxLogits" in end_points:
        loss += _AUX_LOSS_WEIGHT * cross_entropy(end_points["AuxLogits"])
    return loss


def _input(config, dataset):
    """The batch of each clone, the operation that starts the input, and what it leaves out."""
    step_input = dataclasses.replace(config.input, batch_size=config.images_per_step)
    bad_records = BadRecords(config.input.max_bad_records)
    ahead = config.prefetch_to_device and not config.clones.on_cpu
    with tf.device("/device:CPU:0"):
        batches = data.training_batches(dataset, step_input, bad_records)
    initializer, batches = clone_batches(batches, config.clones.devices, ahead)
    return batches, initializer, bad_records


def _clone_losses(config, network_fn, batches):
    """Builds the clones; returns the loss of each, and the logits and update ops of the first.

    As in slim, the statistics of batch norm are those of the first clone.
    """
    losses = []
    for index, (images, labels) in enumerate(batches):
        name = f"clone_{index}" if len(batches) > 1 else None
        with (
            tf.device(config.clones.device_function(index)),
            tf.name_scope(name) if name else contextlib.nullcontext(),
            tf.variable_scope(tf.get_variable_scope(), reuse=index > 0),
        ):
            logits, end_points = network_fn(images)
            losses.append(classification_loss(labels, logits, end_points, config.label_smoothing))
        if index == 0:
            first_logits = logits_of(logits, end_points)
            update_ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    return losses, first_logits, update_ops


def _gradients(config, optimizer, losses, variables):
    """The mean loss of the clones with the weight decay, and what each adds to its gradients."""
    share = 1.0 / len(losses)
    losses = [loss * share for loss in losses]
    weight_decay = tf.losses.get_regularization_losses()
    losses[0] = tf.add_n([losses[0], *weight_decay])
    gradients_of_clones = []
    for index, loss in enumerate(losses):
        with tf.device(config.clones.device_function(index)):
            gradients_of_clones.append(optimizer.compute_gradients(loss, var_list=variables))
    total_loss = tf.add_n(losses)
    return total_loss, gradients_of_clones


def _summed(gradients_of_clones):
    if len(gradients_of_clones) == 1:
        return gradients_of_clones[0]
    summed = []
    for pairs in zip(*gradients_of_clones, strict=True):
        gradients = [gradient for gradient, _ in pairs if gradient is not None]
        summed.append((tf.add_n(gradients) if gradients else None, pairs[0][1]))
    return summed


def _meter(config, losses, logits, loss_scale, variables):
    if not (config.gradient_report_every_n_steps or config.loss_scale.auto):
        return None
    with tf.device(config.clones.device_function(0)):
        layers = trained_part(layers_of(logits, config.precision.compute_dtype), variables)
        return Meter(layers, losses[0] * (loss_scale / len(losses)))


def _norm(gradients):
    return tf.linalg.global_norm([gradient for gradient, _ in gradients])


def _clipped(config, gradients):
    """Clips unscaled gradients; the step has been judged before, by the raw ones."""
    values = [gradient for gradient, _ in gradients]
    if config.clip_gradient_value is not None:
        bound = config.clip_gradient_value
        values = [g if g is None else tf.clip_by_value(g, -bound, bound) for g in values]
    if config.clip_gradient_norm is not None:
        values, _ = tf.clip_by_global_norm(values, config.clip_gradient_norm)
    return [(value, variable) for value, (_, variable) in zip(values, gradients, strict=True)]


def _updates_of_an_applied_step(config, update_ops, averaged, global_step):
    """Makes the function that updates statistics and moving averages in a step that counts."""

    def updates():
        statistics = repeat_updates(update_ops)
        if config.moving_average_decay is None:
            return statistics
        averages = tf.train.ExponentialMovingAverage(config.moving_average_decay, global_step)
        with tf.control_dependencies(statistics):
            return [*statistics, averages.apply(averaged)]

    return updates


def _counts_after(train_op, optimizer):
    with tf.control_dependencies([train_op]):
        return {
            "applied_steps": optimizer.applied_steps.read_value(),
            "skipped_steps": optimizer.skipped_steps.read_value(),
            "consecutive_skips": optimizer.consecutive_skips.read_value(),
        }


def build_graph(config, network_fn, dataset):
    """Builds the training graph in the default graph, which should have a seed.

    Args:
      config: a `TrainConfig`.
      network_fn: function of images [batch, height, width, channels] that returns float32 logits
        [batch, num_classes] and end points, as `nets.nets_factory.get_network_fn` makes it.
      dataset: a `data.Dataset`.

    Returns:
      A `TrainGraph`.

    Raises:
      UsageError: if a scope of `trainable_scopes` holds no variable.
    """
    batches, input_initializer, bad_records = _input(config, dataset)
    batch = [tensor for batch_of_clone in batches for tensor in batch_of_clone]
    last_batch, keep = keep_batch(batch)
    with tf.device("/device:CPU:0"):
        global_step = tf.train.get_or_create_global_step()
        # What dropout depends on; read once, before the step is counted.
        step = tf.identity(global_step, name="step")
        rate = optimizers.learning_rate(
            config.learning_rate, global_step, dataset.num_examples, config.images_of_schedule
        )
    with repeatable_random_ops(step), batch_norm_layers.controlled(config) as batch_norms:
        losses, logits, update_ops = _clone_losses(config, network_fn, batches)
    model_variables = [v for v in tf.global_variables() if v is not global_step]
    variables = warm_start.trainable_variables(config.trainable_scopes)
    optimizer = LossScaleOptimizer(
        optimizers.make_optimizer(config.optimizer, rate), config.loss_scale.make_manager()
    )
    loss, gradients_of_clones = _gradients(config, optimizer, losses, variables)
    gradients = _summed(gradients_of_clones)
    train_op = optimizer.apply_gradients(
        _clipped(config, gradients),
        global_step=global_step,
        if_applied=_updates_of_an_applied_step(config, update_ops, model_variables, global_step),
        finite=assigned_values(update_ops),
    )
    state = [v for v in tf.global_variables() if v.dtype.is_floating]
    taken_with = {"loss": loss, "learning_rate": rate, "loss_scale": optimizer.loss_scale}
    return TrainGraph(
        train_op=tf.group(train_op, keep),
        global_step=global_step,
        counters={**_counts_after(train_op, optimizer), **taken_with},
        metrics={"gradient_norm": _norm(gradients)},
        state=state,
        state_is_finite=all_finite(state),
        replay=Replay(
            loss, gradients_of_clones, batch, last_batch, global_step, optimizer.loss_scale
        ),
        meter=_meter(config, losses, logits, optimizer.loss_scale, variables),
        batch_norms=batch_norms,
        model_variables=model_variables,
        loss_scale_variables=optimizer.state_variables(),
        input_initializer=input_initializer,
        bad_records=bad_records,
    )
