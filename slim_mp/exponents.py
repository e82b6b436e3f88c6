"""Measures the exponents of activations and gradients inside the graph.

Only counts leave the session, a few hundred numbers a layer, never an activation. What is measured
is what half precision would hold: the outputs of the layers, the gradients with respect to them,
and the gradients of kernels and biases, which are computed in half before they are cast (those of
batch norm are float32 throughout). The histogram is that of Micikevicius et al., "Mixed Precision
Training" (arXiv:1710.03740), figure 3.
"""

import dataclasses

import numpy as np

from slim_mp.compat import tf
from slim_mp.number_range import BINS, Exponents

# The position of the weights among the inputs of the operations that multiply by them.
_KERNELS = {"Conv2D": 1, "DepthwiseConv2dNative": 1, "MatMul": 1}
_DEPTHWISE = "DepthwiseConv2dNative"
_BIASES = {"BiasAdd": 1}
_READS = frozenset({"Cast", "Identity", "ReadVariableOp", "Reshape"})
_VARIABLES = frozenset({"VarHandleOp", "Variable", "VariableV2"})
# Operations whose output repeats the values of their input.
_REPEATS = frozenset({"ExpandDims", "Identity", "Reshape", "Squeeze", "StopGradient"})
# Values up to this one round to zero in float16.
_ROUNDS_TO_ZERO = 2.0**-25


@dataclasses.dataclass(frozen=True)
class Product:
    """A convolution or matrix product of a layer.

    Attributes:
      kind: the type of its operation.
      inputs: channels in.
      outputs: channels out.
    """

    kind: str
    inputs: int
    outputs: int

    @property
    def is_depthwise(self):
        """Whether it is a depthwise convolution, which no tensor core computes."""
        return self.kind == _DEPTHWISE


@dataclasses.dataclass(eq=False)
class Layer:
    """A layer: what follows its kernel up to the next layer's.

    Attributes:
      name: the scope of its variables.
      products: its convolutions and matrix products, `Product`.
      outputs: tensors [batch, ...] of all its operations, in graph order; the last one is what it
        hands on.
      parameters: handles of its kernels and biases.
    """

    name: str
    products: list = dataclasses.field(default_factory=list)
    outputs: list = dataclasses.field(default_factory=list)
    parameters: list = dataclasses.field(default_factory=list)


def _operations_before(tensors):
    found, waiting = set(), [tensor.op for tensor in tensors]
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            waiting.extend(tensor.op for tensor in op.inputs)
    return [op for op in tensors[0].graph.get_operations() if op in found]


def _variable_read_by(op, positions):
    """The handle of the variable that an operation of some types reads its weights from, or None.

    Args:
      op: a tf.Operation.
      positions: dict of operation type to the position of the weights among its inputs.
    """
    if op.type not in positions:
        return None
    tensor = op.inputs[positions[op.type]]
    while tensor.op.type in _READS:
        tensor = tensor.op.inputs[0]
    return tensor if tensor.op.type in _VARIABLES else None


def _product(op):
    *_, inputs, outputs = op.inputs[_KERNELS[op.type]].shape.as_list()
    return Product(op.type, inputs, inputs * outputs if op.type == _DEPTHWISE else outputs)


def logits_of(logits, end_points):
    """Returns the list of the logits of a network and those of its auxiliary head, if any."""
    return [logits, *(end_points[key] for key in ("AuxLogits",) if key in end_points)]


def layers_of(logits, dtype):
    """Finds the layers of a network in its graph.

    An operation belongs to the layer whose kernel came last before it: batch norm, activation
    function, pooling, the addition of a shortcut.

    Args:
      logits: list of tensors [batch, num_classes], the auxiliary ones among them.
      dtype: the tf.DType that the network computes in; outputs in any other are left out.

    Returns:
      A list of `Layer`, in graph order, none without an output.
    """
    layers, numbers, number_of = [], {}, {}
    for op in _operations_before(logits):
        weights = _variable_read_by(op, _KERNELS)
        if weights is not None:
            name = weights.op.name.rpartition("/")[0]
            if name not in numbers:
                numbers[name] = len(layers)
                layers.append(Layer(name))
            number_of[op] = numbers[name]
            layers[numbers[name]].products.append(_product(op))
        else:
            before = [number_of[tensor.op] for tensor in op.inputs if tensor.op in number_of]
            if not before:
                continue
            number_of[op] = max(before)
            weights = _variable_read_by(op, _BIASES)
        layer = layers[number_of[op]]
        if weights is not None and all(weights is not known for known in layer.parameters):
            layer.parameters.append(weights)
        if op.type not in _REPEATS and _is_activation(op, dtype, logits[0]):
            layer.outputs.append(op.outputs[0])
    return [layer for layer in layers if layer.outputs]


def trained_part(layers, variables):
    """Leaves out the layers that no gradient reaches when only some variables are trained.

    Args:
      layers: of `layers_of`.
      variables: the variables that are trained.

    Returns:
      A list of `Layer`, from the first that has a trained variable on; their parameters are trained
      ones.
    """
    trained = {variable.op.name for variable in variables}
    scopes = {name.rpartition("/")[0] for name in trained}
    part = []
    for layer in layers:
        inside = any(f"{scope}/".startswith(f"{layer.name}/") for scope in scopes)
        if part or inside:
            parameters = [handle for handle in layer.parameters if handle.op.name in trained]
            part.append(dataclasses.replace(layer, parameters=parameters))
    return part


def _is_activation(op, dtype, logits):
    if not op.outputs or op.outputs[0].dtype != dtype:
        return False
    shape = op.outputs[0].shape
    return (shape.rank or 0) >= 2 and shape[0] == logits.shape[0]


def _count(tensors):
    """The exponents of all values of some tensors, as two tensors: int32 [BINS] and float32."""
    counts, largest = [], []
    for tensor in tensors:
        values = tf.abs(tf.reshape(tf.cast(tensor, tf.float32), [-1]))
        bins = tf.bitwise.right_shift(tf.bitcast(values, tf.int32), 23)
        # tf.math.bincount adds a dozen operations that check what is certain here.
        count = tf.raw_ops.DenseBincount(input=bins, size=BINS, weights=tf.zeros([0], tf.int32))
        counts.append(count)
        finite = tf.where(tf.is_finite(values), values, tf.zeros_like(values))
        largest.append(tf.reduce_max(finite))
    if not counts:
        return tf.zeros([BINS], tf.int32), tf.zeros([])
    return tf.add_n(counts), tf.reduce_max(tf.stack(largest))


def _zero_share(gradient):
    is_zero = tf.abs(tf.cast(gradient, tf.float32)) <= _ROUNDS_TO_ZERO
    return tf.reduce_mean(tf.cast(is_zero, tf.float32))


@dataclasses.dataclass(frozen=True)
class LayerExponents:
    """The exponents of one layer.

    Attributes:
      activations: of its outputs.
      gradients: of the gradients with respect to its outputs.
      weight_gradients: of the gradients of its kernels and biases.
    """

    activations: Exponents = dataclasses.field(default_factory=Exponents)
    gradients: Exponents = dataclasses.field(default_factory=Exponents)
    weight_gradients: Exponents = dataclasses.field(default_factory=Exponents)

    def __add__(self, other):
        return LayerExponents(
            self.activations + other.activations,
            self.gradients + other.gradients,
            self.weight_gradients + other.weight_gradients,
        )

    @property
    def all_gradients(self):
        """The gradients of both kinds."""
        return self.gradients + self.weight_gradients


class Meter:
    """Counts exponents in a graph, in whatever step its tensors are fetched.

    Attributes:
      layers: the list of `Layer`.
      fetches: nested dict of tensors, for `read`.
      zero_in_half: dict of layer name to float32 scalar tensor: the share of the values of the
        gradient that it is handed back which are zero in float16, or would be. Exact zeros, such
        as a ReLU makes, are among them.
    """

    def __init__(self, layers, loss):
        """Builds the operations, in the current graph: a backward pass of its own.

        Args:
          layers: of `layers_of`.
          loss: the scalar tensor to differentiate, scaled perhaps.
        """
        self.layers = layers
        sources = [tensor for layer in layers for tensor in (*layer.outputs, *layer.parameters)]
        with tf.name_scope("exponents"):
            gradients = tf.gradients(loss, sources) if sources else []
            by_source = {
                source.ref(): gradient
                for source, gradient in zip(sources, gradients, strict=True)
                if gradient is not None
            }

            def gradients_of(tensors):
                return [by_source[tensor.ref()] for tensor in tensors if tensor.ref() in by_source]

            self.fetches = {
                layer.name: (
                    _count(layer.outputs),
                    _count(gradients_of(layer.outputs)),
                    _count(gradients_of(layer.parameters)),
                )
                for layer in layers
            }
            self.zero_in_half = {
                layer.name: _zero_share(gradient)
                for layer in layers
                for gradient in gradients_of(layer.outputs)[-1:]
            }

    def read(self, values):
        """Turns the values of `fetches` into a dict of layer name to `LayerExponents`."""
        return {
            name: LayerExponents(
                *(
                    Exponents(np.asarray(counts, np.int64), float(largest))
                    for counts, largest in parts
                )
            )
            for name, parts in values.items()
        }
