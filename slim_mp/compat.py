"""The one place that imports TensorFlow and TF-Slim, in the order and with the aliases they need.

Every other file takes `tf` (the graph-mode API, `tensorflow.compat.v1`) and `slim` from here.
"""

import contextlib
import importlib
import importlib.metadata
import os
import sys
import tempfile
import warnings

from slim_mp.errors import RequirementError

# (distribution, lowest version, first version that is too new)
_REQUIREMENTS = (
    ("tensorflow", (2, 16), (2, 22)),
    ("tf-keras", (2, 16), (2, 22)),
    ("tf-slim", (1, 1), (1, 2)),
)
# Distributions that install the same `tensorflow` module under another name.
_TENSORFLOW_BUILDS = ("tensorflow", "tensorflow-cpu", "tensorflow-rocm", "tf-nightly")


def _version_of(distribution):
    names = _TENSORFLOW_BUILDS if distribution == "tensorflow" else (distribution,)
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return tuple(int(part) for part in importlib.metadata.version(name).split(".")[:2])
    return None


def _dotted(version):
    return ".".join(str(part) for part in version)


def check_requirements():
    """Checks that the packages that TF-Slim needs are there in versions that fit each other.

    Raises:
      RequirementError: if a package is missing, too old, too new, or if tf-keras is of another
        minor version than tensorflow; the message names the command that mends it.
    """
    found = {}
    for name, lowest, too_new in _REQUIREMENTS:
        found[name] = version = _version_of(name)
        wanted = f"{name}>={_dotted(lowest)},<{_dotted(too_new)}"
        if version is None:
            raise RequirementError(f"The package {name} is not installed: pip install '{wanted}'.")
        if not lowest <= version < too_new:
            raise RequirementError(
                f"The package {name} is of version {_dotted(version)}, but slim_mp needs {wanted}: "
                f"pip install '{wanted}'."
            )
    if found["tensorflow"] != found["tf-keras"]:
        raise RequirementError(
            f"tensorflow is of version {_dotted(found['tensorflow'])} but tf-keras of "
            f"{_dotted(found['tf-keras'])}; TF-Slim's batch norm needs both of one minor version: "
            f"pip install 'tf-keras=={_dotted(found['tensorflow'])}.*'."
        )


def _has_temporary_folder():
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        return False
    return True


@contextlib.contextmanager
def _without_startup_noise():
    """Holds stderr back at the level of the file descriptor and drops TensorFlow's notices.

    TensorFlow's C++ logger writes them before any log level applies to it.
    """
    if sys.stderr is None or not _has_temporary_folder():
        yield
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held_back:
        real_stderr = os.dup(2)
        os.dup2(held_back.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(real_stderr, 2)
            os.close(real_stderr)
            held_back.seek(0)
            for line in held_back.read().decode(errors="replace").splitlines():
                if not line.startswith(("I0000 ", "WARNING: All log messages before absl::")):
                    print(line, file=sys.stderr)


def _import_tensorflow():
    # Warnings and errors of the C++ runtime reach the user as exceptions where they matter.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _without_startup_noise():
        return importlib.import_module("tensorflow.compat.v1")


def _alias_legacy_layers():
    """Puts tf-keras's batch norm where TensorFlow looks for it when TF-Slim asks for it.

    TensorFlow lazily imports `tf_keras.legacy_tf_layers.normalization`; since 2.15 tf-keras keeps
    that module under `tf_keras.src`.
    """
    old, new = "tf_keras.legacy_tf_layers", "tf_keras.src.legacy_tf_layers"
    for suffix in ("", ".normalization"):
        if old + suffix not in sys.modules:
            sys.modules[old + suffix] = importlib.import_module(new + suffix)


def _alias_moved_names():
    """Gives TF-Slim the names that TensorFlow has moved out of its internal modules since 2.15.

    Without them a tensor as `is_training`, among others, ends in an AttributeError.
    """
    moved = {
        "tensorflow.python.framework.ops": {"IndexedSlices": tf.IndexedSlices, "Tensor": tf.Tensor},
        "tensorflow.python.ops.array_ops": {"stack": tf.stack, "unstack": tf.unstack},
        "tensorflow.python.ops.control_flow_ops": {
            "Assert": tf.Assert,
            "case": tf.case,
            "cond": tf.cond,
            "while_loop": tf.while_loop,
        },
        "tensorflow.python.ops.variable_scope": {"variable": tf.Variable},
    }
    for module_name, names in moved.items():
        module = importlib.import_module(module_name)
        for name, value in names.items():
            if not hasattr(module, name):
                setattr(module, name, value)


check_requirements()
tf = _import_tensorflow()
_alias_legacy_layers()
_alias_moved_names()
import tf_slim as slim  # noqa: E402  (it needs the aliases above)

# Where TensorFlow's distribution strategies get their input from; it has no public name.
MultiDeviceIterator = importlib.import_module(
    "tensorflow.python.data.ops.multi_device_iterator_ops"
).MultiDeviceIterator


def start_graph_mode():
    """Puts the process into TensorFlow 1 semantics: graphs, sessions and resource variables.

    A program calls it once, before it builds a graph; importing slim_mp changes nothing. Also
    quiets deprecation notices of TensorFlow and TF-Slim that a user of slim_mp cannot act on.
    """
    tf.get_logger().setLevel("ERROR")
    tf.disable_v2_behavior()
    tf.enable_resource_variables()
    warnings.filterwarnings("ignore", message=r"`(tf\.layers|layer)\..*` is deprecated.*")
    warnings.filterwarnings("ignore", message="To make it possible to preserve tf.data options")


__all__ = ["MultiDeviceIterator", "check_requirements", "slim", "start_graph_mode", "tf"]
