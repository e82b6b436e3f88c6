"""Says where a step went wrong, by running it once more: nothing of this costs a good step.

A step that is not finite changes nothing, so that the same batch on the same weights goes wrong in
the same way. Its outputs are then fetched in the order of the graph until one is not finite.
"""

import contextlib
import dataclasses

import numpy as np

from slim_mp.checkpoints.scopes import few
from slim_mp.compat import tf

# What may be held in memory at the same time; an output alone may be larger.
_BYTES_AT_ONCE = 2**28
_NAMED = 5


@dataclasses.dataclass(frozen=True)
class Replay:
    """What a step needs to be run again.

    Attributes:
      loss: float32 scalar tensor.
      gradients: for each clone, a list of pairs (unscaled float32 gradient, variable).
      batch: tensors that the step reads its batch from.
      last_batch: variables that hold the batch of the last step.
      global_step: int64 variable, which dropout depends on.
      loss_scale: float32 scalar tensor that the step reads its scale from.
    """

    loss: tf.Tensor
    gradients: list
    batch: tuple
    last_batch: tuple
    global_step: tf.Variable
    loss_scale: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Finding:
    """What was not finite in a step.

    Attributes:
      in_forward_pass: whether it was an output on the way to the loss.
      text: a sentence that names it.
    """

    in_forward_pass: bool
    text: str


def keep_batch(batch):
    """Keeps the batch of the last step in variables that no checkpoint holds.

    Args:
      batch: tensors of static shape.

    Returns:
      The variables, each on the device of its tensor, and the operation of each step that sets
      them; it copies nothing.
    """
    kept = []
    for tensor in batch:
        with tf.device(tensor.device):
            kept.append(
                tf.Variable(
                    lambda tensor=tensor: tf.zeros(tensor.shape, tensor.dtype),
                    trainable=False,
                    collections=[tf.GraphKeys.LOCAL_VARIABLES],
                    use_resource=True,
                    name="last_batch",
                )
            )
    assign = [variable.assign(tensor) for variable, tensor in zip(kept, batch, strict=True)]
    return tuple(kept), tf.group(*assign)


def _forward_operations(loss, batch):
    """The operations from the batch to the loss, in graph order.

    What makes the batch is left out: to run it would take the next one.
    """
    found, waiting = {tensor.op for tensor in batch}, [loss.op]
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            waiting.extend(tensor.op for tensor in op.inputs)
    return [op for op in loss.graph.get_operations() if op in found]


def _values(gradient):
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _is_finite(value):
    return np.isfinite(np.asarray(value, np.float32)).all()


def _in_parts(tensors):
    """Splits a list of tensors into lists that fit into memory together."""
    part, size = [], 0
    for tensor in tensors:
        # A size that is known only when it is run counts as nothing.
        more = (tensor.shape.num_elements() or 0) * tensor.dtype.size
        if part and size + more > _BYTES_AT_ONCE:
            yield part
            part, size = [], 0
        part.append(tensor)
        size += more
    if part:
        yield part


def _where(op):
    """Names an operation by its layer and what it computes there."""
    # An operation that computes in float32 stands under the name of the one it stands for.
    name, in_float32, _ = op.name.partition("/float32/")
    layer, _, operation = name.rpartition("/")
    kind = f"{operation}, {op.type}" if in_float32 else op.type
    return f"{layer or name} ({kind})"


class Diagnosis:
    """Runs the last step of a session again and finds what was not finite in it."""

    def __init__(self, replay, session, step, loss_scale):
        """Prepares to run the step again.

        Args:
          replay: a `Replay`.
          session: the session that ran it, and has run no other since.
          step: the global step after it.
          loss_scale: the scale it ran with.
        """
        self._replay = replay
        self._session = session
        self._step = step
        batch = session.run(replay.last_batch)
        self._feeds = {**dict(zip(replay.batch, batch, strict=True)), replay.loss_scale: loss_scale}

    @contextlib.contextmanager
    def _before_the_step(self):
        """While open, the global step is that before the step."""
        self._replay.global_step.load(self._step - 1, self._session)
        try:
            yield
        finally:
            self._replay.global_step.load(self._step, self._session)

    def _not_finite(self, tensors):
        """Finds, lazily and in order, those of some tensors that are not finite."""
        for part in _in_parts(tensors):
            with self._before_the_step():
                values = self._session.run(part, self._feeds)
            yield from (t for t, v in zip(part, values, strict=True) if not _is_finite(v))

    def first_output(self):
        """Names the first operation in graph order whose output is not finite.

        Returns:
          A str such as "resnet_v1_50/block1/unit_1/bottleneck_v1/conv2 (Conv2D)", or None if every
          output on the way to the loss is finite.
        """
        graph = self._replay.loss.graph
        fed = {tensor.ref() for tensor in self._feeds}
        outputs = (
            tensor
            for op in _forward_operations(self._replay.loss, self._replay.batch)
            # A constant is not finite on purpose; what it does to a layer is looked at.
            if op.type != "Const"
            for tensor in op.outputs
            if tensor.dtype.is_floating and graph.is_fetchable(tensor) and tensor.ref() not in fed
        )
        bad = next(self._not_finite(outputs), None)
        return None if bad is None else _where(bad.op)

    def gradients(self):
        """Names the variables whose gradients are not finite, the last layers of the network first.

        Returns:
          For each clone a list of names; the backward pass reached the first of them first.
        """
        names = []
        for pairs in self._replay.gradients:
            of_gradient = {
                _values(gradient).ref(): variable.op.name
                for gradient, variable in reversed(pairs)
                if gradient is not None
            }
            bad = self._not_finite(reference.deref() for reference in of_gradient)
            names.append([of_gradient[tensor.ref()] for tensor in bad])
        return names

    def find(self):
        """Finds what was not finite first.

        Returns:
          A `Finding`.
        """
        try:
            output = self.first_output()
            if output:
                return Finding(
                    True, f"The first output that is not finite, in graph order: {output}."
                )
            return Finding(False, self._say_gradients())
        except tf.errors.OpError as error:
            # Such as a device without memory for it. The run itself is well.
            message = (error.message or "").partition("\n")[0]
            return Finding(
                False, f"Running the step again to find out where has failed ({message})."
            )

    def _say_gradients(self):
        of_clones = self.gradients()
        bad = [
            (f"clone {index}: " if len(of_clones) > 1 else "") + few(names, most=_NAMED)
            for index, names in enumerate(of_clones)
            if names
        ]
        if not bad:
            return "The same step is finite when it is run again."
        return (
            "Every output of the forward pass is finite; gradients that are not, last layers "
            f"first: {'; '.join(bad)}."
        )
