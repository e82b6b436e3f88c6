"""Which tensor lives in which dtype: the table of precisions and the scope that applies one.

Variables stay float32 (the master weights); a layer that runs in half reads a cast of them. This
is the custom getter of TensorFlow's official ResNet, which follows Micikevicius et al., "Mixed
Precision Training" (arXiv:1710.03740), made to fit TF-Slim's arg_scope.
"""

import contextlib
import dataclasses
import functools
import importlib
import types

from absl import logging

from slim_mp.batch_norm import half_safe_batch_norm
from slim_mp.compat import slim, tf
from slim_mp.errors import UsageError
from slim_mp.float32_ops import REDUCTIONS, SLOW_ON_CPU, float32_lrn, float32_ops

_SLIM_ARG_SCOPE = importlib.import_module("tf_slim.ops.arg_scope")


@dataclasses.dataclass(frozen=True)
class Precision:
    """One row of the table of precisions.

    Attributes:
      name: what `--dtype` calls it.
      compute_dtype: the tf.DType of activations and of the casts of the weights.
      default_loss_scale: the loss scale where none is given.
    """

    name: str
    compute_dtype: tf.DType
    default_loss_scale: float


# The defaults of the scale are those of TensorFlow's official ResNet.
PRECISIONS = types.MappingProxyType(
    {
        row.name: row
        for row in (
            Precision("fp32", tf.float32, 1.0),
            Precision("fp16", tf.float16, 128.0),
            Precision("bf16", tf.bfloat16, 1.0),
        )
    }
)


def get_precision(dtype):
    """Looks a precision up.

    Args:
      dtype: a name of `PRECISIONS`, a tf.DType that a row computes in, or a `Precision`.

    Returns:
      The `Precision`.

    Raises:
      UsageError: for anything else; a numpy dtype is refused too, since it compares equal to a
        tf.DType in some places of TensorFlow and not in others.
    """
    if isinstance(dtype, Precision):
        return dtype
    for row in PRECISIONS.values():
        if (isinstance(dtype, str) and dtype == row.name) or (
            isinstance(dtype, tf.DType) and dtype == row.compute_dtype
        ):
            return row
    dtypes = ", ".join(f"tf.{row.compute_dtype.name}" for row in PRECISIONS.values())
    raise UsageError(
        f"No precision is called {dtype!r} (a {type(dtype).__name__}); "
        f"use one of {', '.join(PRECISIONS)}, or of {dtypes}."
    )


class _MasterWeights:
    """The float32 variables behind the casts that one scope has handed out."""

    def __init__(self, compute_dtype):
        self.compute_dtype = compute_dtype
        self.has_cast = False
        self.has_passed_weights = False
        self._by_cast = {}
        self._new = []

    def getter(self, getter, name, *args, dtype=None, **kwargs):
        """A custom getter: asks for float32 where half was asked for and returns a new cast.

        Every call casts anew. A cast that two clones shared would make autodiff add their
        gradients in half.
        """
        if dtype is None or tf.as_dtype(dtype) != self.compute_dtype:
            # Batch norm asks for vectors in float32; whoever asks for weights has float32 inputs.
            rank = tf.TensorShape(kwargs.get("shape")).rank
            self.has_passed_weights |= rank is not None and rank > 1
            return getter(name, *args, dtype=dtype, **kwargs)
        existing = len(tf.global_variables())
        variable = getter(name, *args, dtype=tf.float32, **kwargs)
        if len(tf.global_variables()) > existing:
            self._new.append(variable)
        cast = tf.cast(variable, self.compute_dtype, name=name.rsplit("/", 1)[-1] + "/cast")
        self._by_cast[cast.ref()] = variable
        self.has_cast = True
        return cast

    def of(self, value):
        """The variable behind a cast, or the value itself where it is no cast of this scope."""
        return self._by_cast.get(value.ref(), value) if isinstance(value, tf.Tensor) else value

    def take_if_new(self, variable):
        """Tells, once, whether this scope has created a variable rather than reused it."""
        remaining = [item for item in self._new if item is not variable]
        is_new = len(remaining) < len(self._new)
        self._new = remaining
        return is_new

    def replace_in_collections(self):
        """Puts the variable in the place of each cast that a layer added to a collection.

        TF-Slim's `variables_collections` add what the getter returned.
        """
        graph = tf.get_default_graph()
        for key in graph.get_all_collection_keys():
            collection = tf.get_collection_ref(key)
            if any(self.of(item) is not item for item in collection):
                masters = {id(self.of(item)): self.of(item) for item in collection}
                collection[:] = masters.values()


class _MasterRegularizer:
    """A regularizer that acts on the float32 variable behind a cast, once for each variable."""

    def __init__(self, regularizer, masters):
        self._regularizer = regularizer
        self.masters = masters

    def __call__(self, weights):
        variable = self.masters.of(weights)
        if variable is weights or self.masters.take_if_new(variable):
            return self._regularizer(variable)
        return None


class _LayerArguments(dict):
    """What an arg_scope holds for one layer function, each regularizer and batch norm wrapped.

    TF-Slim copies this dict and updates the copy with the arguments of a nested arg_scope and with
    those of the call itself, so that a regularizer is wrapped wherever it is given.
    """

    def __init__(self, arguments, masters, safe_normalizer):
        super().__init__()
        self._masters = masters
        self._safe_normalizer = safe_normalizer
        self.update(arguments)

    def copy(self):
        return _LayerArguments(self, self._masters, self._safe_normalizer)

    def update(self, arguments):
        super().update({key: self._wrapped(key, value) for key, value in arguments.items()})

    def _wrapped(self, key, value):
        if key == "param_regularizers" and value:
            return {name: self._wrapped("_regularizer", item) for name, item in value.items()}
        if not callable(value):
            return value
        if key == "normalizer_fn":
            return self._safe_normalizer(value)
        if key.endswith("_regularizer") and getattr(value, "masters", None) is not self._masters:
            return _MasterRegularizer(value, self._masters)
        return value


@contextlib.contextmanager
def _wrapped_arguments(masters, safe_normalizer):
    """While open, every layer function of TF-Slim sees wrapped arguments.

    The function that looks the current arg_scope up is replaced, since a network may open an
    arg_scope that was made beforehand, which takes the place of all others.
    """
    current_arg_scope = _SLIM_ARG_SCOPE.current_arg_scope
    layers = {
        slim.arg_scope_func_key(layer) for layer in vars(slim).values() if slim.has_arg_scope(layer)
    }

    def wrapped():
        current = current_arg_scope()
        return {
            key: _LayerArguments(current.get(key, {}), masters, safe_normalizer)
            for key in current.keys() | layers
        }

    _SLIM_ARG_SCOPE.current_arg_scope = wrapped
    try:
        yield
    finally:
        _SLIM_ARG_SCOPE.current_arg_scope = current_arg_scope


@contextlib.contextmanager
def _custom_getter(innermost):
    """Adds a custom getter to the current variable scope, inside any that it has.

    The scope is not entered again: that would number the layers inside from the start.
    """
    scope = tf.get_variable_scope()
    outer = scope.custom_getter

    def composed(getter, *args, **kwargs):
        # TensorFlow hands the getter down by this name.
        return innermost(functools.partial(outer, getter) if outer else getter, *args, **kwargs)

    scope.set_custom_getter(composed)
    try:
        yield
    finally:
        scope.set_custom_getter(outer)


@contextlib.contextmanager
def arg_scope(dtype, float32_kernels=False, master_weights=True):
    """Builds TF-Slim layers that compute in `dtype` from float32 variables.

    Open it inside the arg_scope of the network, and give the layers inputs of `dtype`:

        with slim.arg_scope(resnet_arg_scope()), slim_mp.arg_scope(tf.float16):
            logits, end_points = resnet_v1_50(tf.cast(images, tf.float16), num_classes)
        logits = tf.cast(logits, tf.float32)

    Names, shapes and dtypes of all variables are those of the float32 network. Regularizers act
    on the float32 variables, once for each, however often a layer is built or reused. Batch norm
    keeps float32 scale, offset and statistics. Reductions (`float32_ops.REDUCTIONS`) and local
    response normalization compute in float32.

    Args:
      dtype: the compute dtype; anything that `get_precision` takes.
      float32_kernels: compute convolutions and matrix products in float32 between casts, for a
        graph that runs on a CPU: two to four times faster there than TensorFlow's half kernels,
        and accumulated in float32 as on a tensor core. Only a CPU with bfloat16 instructions of its
        own is faster without, in bfloat16.
      master_weights: False makes the weights variables of `dtype`, half the size, for a graph that
        only answers. Batch norm keeps float32 ones.

    Yields:
      The arg_scope, a dict, as slim.arg_scope does.

    Raises:
      UsageError: if `dtype` is no precision.
    """
    compute_dtype = get_precision(dtype).compute_dtype
    if compute_dtype == tf.float32:
        yield slim.current_arg_scope()
        return
    masters = _MasterWeights(compute_dtype)
    in_float32 = REDUCTIONS | SLOW_ON_CPU if float32_kernels else REDUCTIONS
    with contextlib.ExitStack() as stack:
        if master_weights:
            stack.enter_context(_custom_getter(masters.getter))
        stack.enter_context(float32_ops(in_float32))
        stack.enter_context(float32_lrn())
        safe_normalizer = stack.enter_context(half_safe_batch_norm())
        stack.enter_context(_wrapped_arguments(masters, safe_normalizer))
        yield _SLIM_ARG_SCOPE.current_arg_scope()
    masters.replace_in_collections()
    if masters.has_passed_weights and not masters.has_cast:
        logging.warning(
            "Every layer inside slim_mp.arg_scope(%s) computes in float32, as its inputs do: cast "
            "the inputs of the network.",
            compute_dtype.name,
        )
