"""Says where a step went wrong, by running it once more: nothing of this costs a good step.

A step that is not finite changes nothing, so that the same batch on the same weights goes wrong in
the same way. Its outputs are then fetched in the order of the graph until one is not finite.
"""

import dataclasses

import numpy as np

from slim_mp.compat import tf
from slim_mp.scopes import few

# Outputs that are held in memory at the same time.
_FETCHED_AT_ONCE = 16
_NAMED = 5


@dataclasses.dataclass(frozen=True)
class Replay:
    """What a step needs to be run again.

    Attributes:
      loss: float32 scalar tensor.
      gradients: list of pairs (unscaled float32 gradient, variable).
      batch: tensors that the step reads its batch from.
      last_batch: variables that hold the batch of the last step.
      step: int64 scalar tensor that dropout depends on, the global step before it.
      loss_scale: float32 scalar tensor that the step reads its scale from.
    """

    loss: tf.Tensor
    gradients: list
    batch: tuple
    last_batch: tuple
    step: tf.Tensor
    loss_scale: tf.Tensor


def keep_batch(batch):
    """Keeps the batch of the last step in variables that no checkpoint holds.

    Args:
      batch: tensors of static shape.

    Returns:
      The variables, and the operation of each step that sets them; it copies nothing.
    """
    kept = [
        tf.Variable(
            lambda tensor=tensor: tf.zeros(tensor.shape, tensor.dtype),
            trainable=False,
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
            name="last_batch",
        )
        for tensor in batch
    ]
    assign = [variable.assign(tensor) for variable, tensor in zip(kept, batch, strict=True)]
    return tuple(kept), tf.group(*assign)


def _forward_operations(loss):
    """The operations that the loss depends on, in graph order."""
    found, waiting = set(), [loss.op]
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            waiting.extend(tensor.op for tensor in op.inputs)
    return [op for op in loss.graph.get_operations() if op in found]


def _is_finite(value):
    return np.isfinite(np.asarray(value, np.float32)).all()


def _layer_of(op):
    # An operation that computes in float32 stands under the name of the one it stands for.
    return op.name.split("/float32/")[0].rpartition("/")[0] or op.name


class Diagnosis:
    """Runs the last step of a session again and finds what was not finite in it."""

    def __init__(self, replay, session, step, loss_scale):
        """Prepares to run the step again.

        Args:
          replay: a `Replay`.
          session: the session that ran it.
          step: the global step before it.
          loss_scale: the scale it ran with.
        """
        self._replay = replay
        self._session = session
        batch = session.run(replay.last_batch)
        self._feeds = dict(zip(replay.batch, batch, strict=True))
        self._feeds.update({replay.step: step, replay.loss_scale: loss_scale})

    def first_output(self):
        """Names the first operation in graph order whose output is not finite.

        Returns:
          A str such as "resnet_v1_50/block1/unit_1/bottleneck_v1/conv2 (Conv2D)", or None if every
          output on the way to the loss is finite.
        """
        graph = self._replay.loss.graph
        fed = {tensor.ref() for tensor in self._feeds}
        tensors = [
            tensor
            for op in _forward_operations(self._replay.loss)
            for tensor in op.outputs
            if tensor.dtype.is_floating and graph.is_fetchable(tensor) and tensor.ref() not in fed
        ]
        for start in range(0, len(tensors), _FETCHED_AT_ONCE):
            some = tensors[start : start + _FETCHED_AT_ONCE]
            for tensor, value in zip(some, self._session.run(some, self._feeds), strict=True):
                if not _is_finite(value):
                    return f"{_layer_of(tensor.op)} ({tensor.op.type})"
        return None

    def gradients(self):
        """Names the variables whose gradients are not finite, the last layers of the network first.

        Returns:
          A list of names; the backward pass reached the first of them first.
        """
        return [
            variable.op.name
            for gradient, variable in reversed(self._replay.gradients)
            if gradient is not None and not _is_finite(self._session.run(gradient, self._feeds))
        ]

    def describe(self):
        """Says in one sentence what was not finite first."""
        output = self.first_output()
        if output:
            return f"The first output that is not finite, in graph order: {output}."
        names = self.gradients()
        if not names:
            return "The same step is finite when it is run again."
        return (
            "Every output of the forward pass is finite; gradients that are not, last layers "
            f"first: {few(names, most=_NAMED)}."
        )
