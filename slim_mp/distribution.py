"""Where a step runs: clones of the network on the devices of this machine."""

import dataclasses

from slim_mp.compat import tf
from slim_mp.errors import UsageError

_VARIABLE_OPS = frozenset({"AutoReloadVariable", "VarHandleOp", "Variable", "VariableV2"})


@dataclasses.dataclass(frozen=True)
class Clones:
    """The devices that each compute one clone of the network.

    Attributes:
      devices: a device name for each clone.
      idle_gpus: number of GPUs that are visible to this process and not used.
    """

    devices: tuple
    idle_gpus: int = 0

    @property
    def on_cpu(self):
        """Whether the clones run on the CPU."""
        return "CPU" in self.devices[0]

    def device_function(self, index):
        """Returns what tf.device takes to build clone `index`.

        A clone's operations go to its device. Where clones share the variables these go to the
        CPU, as in slim, and a single clone keeps them beside it.
        """
        device = self.devices[index]
        variables_device = "/device:CPU:0" if len(self.devices) > 1 else device
        return lambda op: variables_device if op.type in _VARIABLE_OPS else device

    def describe(self):
        """Says in one line where training runs."""
        count = len(self.devices)
        where = f"{count} clone{'s' if count > 1 else ''} on {', '.join(self.devices)}"
        if self.idle_gpus:
            return f"{where}; {self.idle_gpus} visible GPU(s) stay idle (--num_clones)"
        if self.on_cpu:
            return f"{where}; no GPU is used"
        return where


def visible_gpus():
    """Returns the number of GPUs that TensorFlow sees."""
    return len(tf.config.list_physical_devices("GPU"))


def local_clones(num_clones=1, clone_on_cpu=False, num_gpus=None):
    """Chooses the devices of the clones.

    Args:
      num_clones: number of clones, at least 1.
      clone_on_cpu: run on the CPU even where there are GPUs.
      num_gpus: GPUs of the machine; None asks TensorFlow.

    Returns:
      The `Clones`: on the first GPUs, or on CPU devices where there is no GPU at all.

    Raises:
      UsageError: if there are GPUs but fewer than clones, or num_clones is below 1.
    """
    if num_clones < 1:
        raise UsageError(f"--num_clones is {num_clones}; it must be at least 1.")
    gpus = visible_gpus() if num_gpus is None else num_gpus
    if gpus and not clone_on_cpu:
        if num_clones > gpus:
            raise UsageError(
                f"--num_clones is {num_clones} but TensorFlow sees {gpus} GPU(s): ask for at most "
                f"{gpus}, or add --clone_on_cpu."
            )
        return Clones(tuple(f"/device:GPU:{i}" for i in range(num_clones)), gpus - num_clones)
    return Clones(tuple(f"/device:CPU:{i}" for i in range(num_clones)), gpus)


def session_config(clones):
    """Returns the tf.ConfigProto of a session that runs some `Clones`.

    GPU memory grows as needed, so that an evaluation fits beside a training run.
    """
    config = tf.ConfigProto(allow_soft_placement=True)
    config.gpu_options.allow_growth = True
    if clones.on_cpu:
        config.device_count["CPU"] = len(clones.devices)
        config.device_count["GPU"] = 0
    return config


def open_session(on_cpu=False):
    """Opens a session of the default graph that answers, on the GPU if there is one.

    Args:
      on_cpu: whether to leave GPUs alone.

    Returns:
      A tf.Session.
    """
    return tf.Session(config=session_config(local_clones(clone_on_cpu=on_cpu)))
