"""`--loss_scale=auto`: the first batches of a run say which loss scale it begins with."""

from absl import logging

from slim_mp.checkpoints.checkpoint_files import read_contents
from slim_mp.loss_scale import STATE_SCOPE
from slim_mp.number_range import RANGES, Exponents
from slim_mp.recommended_scale import choose_scale

_BATCHES = 2
# Scales to measure with, as powers of two: the first is that of most recipes, and if gradients
# overflow with it the next is tried.
_TRIED = range(15, -25, -4)


def is_saved(checkpoint):
    """Whether a checkpoint holds a loss scale to go on with.

    Args:
      checkpoint: prefix of the checkpoint that a run goes on from, or None.

    Raises:
      CheckpointError: if it cannot be read.
    """
    return bool(checkpoint) and f"{STATE_SCOPE}/scale" in read_contents(checkpoint).shapes


def set_scale(config, graph, session):
    """Measures the first batches, sets the loss scale and says why; the input starts anew.

    Args:
      config: a `TrainConfig`.
      graph: a `TrainGraph` with a meter.
      session: a session whose variables have their initial values.

    Raises:
      tf.errors.OpError: if the input cannot be read.
    """
    number_range = RANGES[config.precision.name]
    gradients = _unscaled_gradients(graph, session) if number_range.needs_scaling else {}
    session.run(graph.input_initializer)
    if gradients is None:
        logging.warning(
            "Loss scale auto: the first batches are not finite with any scale that was tried; "
            "starting with %g.",
            config.loss_scale.init,
        )
        return
    choice = choose_scale(gradients, number_range)
    if choice.scale is None:
        logging.info(
            "Loss scale auto: %s; starting with %g.", choice.reason, config.loss_scale.init
        )
        return
    scale = max(choice.scale, config.loss_scale.minimum)
    variable = next(v for v in graph.loss_scale_variables if v.op.name == f"{STATE_SCOPE}/scale")
    session.run(variable.initializer, {variable.initializer.inputs[1]: scale})
    logging.info("Loss scale auto: starting with %.15g, since %s.", scale, choice.reason)


def _unscaled_gradients(graph, session):
    """The exponents of the gradients of some batches by layer, or None if none are finite."""
    for exponent in _TRIED:
        feeds = {graph.replay.loss_scale: 2.0**exponent}
        sums = {layer.name: Exponents() for layer in graph.meter.layers}
        session.run(graph.input_initializer)
        for _ in range(_BATCHES):
            measured = graph.meter.read(session.run(graph.meter.fetches, feeds))
            if any(layer.activations.not_finite for layer in measured.values()):
                return None
            for name, layer in measured.items():
                sums[name] += layer.all_gradients
        if not any(layer.not_finite for layer in sums.values()):
            return {name: layer.shifted(-exponent) for name, layer in sums.items()}
    return None
