"""Mixed-precision training of TF-Slim image classifiers on a current TensorFlow."""

from slim_mp.precision import PRECISIONS, Precision, arg_scope, get_precision

__all__ = ["PRECISIONS", "Precision", "arg_scope", "get_precision"]
