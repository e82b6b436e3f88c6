"""The flags of export_inference_graph, and what follows from them."""

import os

from absl import flags

from slim_mp.errors import UsageError
from slim_mp.export.export import ExportConfig
from slim_mp.flags import subject_flags
from slim_mp.flags.flag_checks import check_flags
from slim_mp.flags.subject_flags import define_subject_flags, input_spec
from slim_mp.precision import PRECISIONS, get_precision

FLAGS = flags.FLAGS

_FROM_A_CHECKPOINT = ("export_dir", "frozen_graph", "tflite")
_FILES = ("output_file", "frozen_graph", "tflite")
_REPLACED = " A file that is there is replaced only if it is {} or empty."


def define_export_flags():
    """Defines the flags of export_inference_graph."""
    flags.DEFINE_string(
        "checkpoint_path",
        None,
        "Checkpoint to export: a file, a prefix, a folder (its newest), or the name of a published "
        "one that python -m slim_mp.fetch has fetched.",
    )
    define_subject_flags()
    _define_graph_flags()
    _define_output_flags()


def _define_graph_flags():
    flags.DEFINE_string(
        "output_file",
        "",
        f"File for the graph of the network, without weights.{_REPLACED.format('a graph')}",
    )
    flags.DEFINE_boolean("write_text_graphdef", False, "Write --output_file as text.")
    flags.DEFINE_boolean("is_training", False, "Write --output_file as a graph for training.")
    flags.DEFINE_integer(
        "batch_size",
        None,
        "Images that --output_file, --frozen_graph and --tflite take at once; by default any "
        "number, as a SavedModel does.",
    )
    flags.DEFINE_boolean("use_grayscale", False, "The network takes images of one channel.")
    flags.DEFINE_boolean("quantize", False, "Not supported; see --dtype.")
    flags.DEFINE_boolean("is_video_model", False, "Not supported: no network takes videos.")
    flags.DEFINE_integer("num_frames", None, "Not supported, as --is_video_model.")


def _define_output_flags():
    flags.DEFINE_enum(
        "dtype",
        "fp32",
        list(PRECISIONS),
        "What weights are stored in and the network computes in; inputs and outputs are float32.",
    )
    flags.DEFINE_boolean(
        "float32_kernels",
        False,
        "Compute convolutions and matrix products of a half-precision export in float32 between "
        "casts, for a server whose CPU has no instructions for half; on a GPU leave it out.",
    )
    flags.DEFINE_string(
        "export_dir",
        None,
        "Folder for a SavedModel, which is written to the next free number in it, as TensorFlow "
        "Serving expects it.",
    )
    flags.DEFINE_string(
        "frozen_graph",
        None,
        f"File for a GraphDef with the weights as constants.{_REPLACED.format('a graph')}",
    )
    flags.DEFINE_string(
        "tflite",
        None,
        f"File for a TFLite model, in fp32 or fp16.{_REPLACED.format('such a model')}",
    )
    flags.DEFINE_list(
        "sample_images",
        [],
        "Image files, or patterns of files, on which what was written must answer as the "
        "checkpoint does; by default images that are made for it.",
    )
    flags.DEFINE_float(
        "tolerance",
        None,
        "How far a logit may be off, as a share of the largest, from what the checkpoint answers "
        "in the same --dtype; by default 0.001 in fp32, 0.005 in fp16 and 0.05 in bf16. TFLite in "
        "fp16, which computes in float32, may be off by 0.05 from float32.",
    )


def check():
    """Refuses flags that make no sense, alone or together.

    Raises:
      UsageError: if there are any.
    """
    check_flags()
    if FLAGS.is_video_model or FLAGS.num_frames is not None:
        raise UsageError(
            "--is_video_model and --num_frames are for networks of videos, of which there are "
            "none: leave them out."
        )
    asked = [name for name in (*_FROM_A_CHECKPOINT, "output_file") if FLAGS[name].value]
    if not asked:
        raise UsageError(
            "Say what to write: --output_file for the graph of a network, or --export_dir, "
            "--frozen_graph or --tflite for a checkpoint."
        )
    of_checkpoint = [f"--{name}" for name in asked if name in _FROM_A_CHECKPOINT]
    if of_checkpoint and not FLAGS.checkpoint_path:
        raise UsageError(f"{' and '.join(of_checkpoint)} needs a checkpoint: --checkpoint_path.")
    if of_checkpoint and FLAGS.is_training:
        raise UsageError(
            f"--is_training is for --output_file; {' and '.join(of_checkpoint)} would answer with "
            "the statistics of each batch, and with dropout: leave it out."
        )
    if FLAGS.tflite and FLAGS.dtype == "bf16":
        raise UsageError("TFLite has no bf16: give --dtype=fp16 or fp32, or leave --tflite out.")
    _check_idle(of_checkpoint)
    _check_paths()


def _check_idle(of_checkpoint):
    """Refuses flags that would do nothing beside the others."""
    needed = {
        "write_text_graphdef": ("--output_file", FLAGS.output_file),
        "is_training": ("--output_file", FLAGS.output_file),
        "sample_images": ("--export_dir, --frozen_graph or --tflite", of_checkpoint),
        "tolerance": ("--export_dir, --frozen_graph or --tflite", of_checkpoint),
        "float32_kernels": ("--dtype=fp16 or bf16", FLAGS.dtype != "fp32"),
    }
    for name, (condition, is_met) in needed.items():
        if FLAGS[name].value not in (None, False, []) and not is_met:
            raise UsageError(f"--{name} is for {condition}: add that, or leave --{name} out.")


def _check_paths():
    paths = {}
    for name in _FILES:
        path = FLAGS[name].value
        if path and os.path.isdir(path):
            raise UsageError(f"--{name}={path} is a folder: give the path of a file.")
        other = paths.setdefault(os.path.realpath(path), name) if path else name
        if other != name:
            raise UsageError(f"--{name} and --{other} are the same file: give two.")


def subject():
    """Returns the `subject_flags.Subject` of the flags; raises as `subject_flags.subject`."""
    return subject_flags.subject(FLAGS.checkpoint_path)


def network_arguments():
    """Returns what nets_factory.get_network_fn takes for the network in --dtype, as a dict."""
    return {"precision": get_precision(FLAGS.dtype), "float32_kernels": FLAGS.float32_kernels}


def _spec(network_fn, exported):
    channels = 1 if FLAGS.use_grayscale else None
    return input_spec(network_fn, exported.choices, FLAGS.batch_size, channels)


def export_config(network_fn, exported):
    """Returns the ExportConfig of the flags, or None if they ask for nothing of a checkpoint.

    Args:
      network_fn: what nets_factory.get_network_fn made.
      exported: the `Subject`.

    Raises:
      CheckpointError: if the checkpoint holds no last layer.
      DataError: if a labels.txt cannot be used.
    """
    if not any(FLAGS[name].value for name in _FROM_A_CHECKPOINT):
        return None
    return ExportConfig(
        weights=subject_flags.weights(exported),
        spec=_spec(network_fn, exported),
        precision=get_precision(FLAGS.dtype),
        label_names=subject_flags.label_names(exported),
        export_dir=FLAGS.export_dir,
        frozen_graph=FLAGS.frozen_graph,
        tflite=FLAGS.tflite,
        sample_images=tuple(FLAGS.sample_images),
        tolerance=FLAGS.tolerance,
    )


def graph_arguments():
    """Returns what nets_factory.get_network_fn takes for the graph file, as a dict.

    Its variables are float32 in any dtype, as in the checkpoints that it is frozen with.
    """
    return {**network_arguments(), "is_training": FLAGS.is_training}


def graph_file(network_fn, exported):
    """Returns what `slim_graph.write` takes after the network, or None; arguments as before."""
    if not FLAGS.output_file:
        return None
    spec = _spec(network_fn, exported)
    return FLAGS.output_file, [spec.batch_size, *spec.image_shape], FLAGS.write_text_graphdef
