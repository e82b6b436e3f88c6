"""SavedModels: a network as TensorFlow Serving takes it, with its labels among the assets."""

import contextlib
import dataclasses
import errno
import os
import tempfile

from slim_mp.compat import tf
from slim_mp.distribution import open_session
from slim_mp.errors import CheckpointError, reason
from slim_mp.export import serving_graph
from slim_mp.files.output_files import make_folder
from slim_mp.files.temporary_folders import temporary_folder

FILE_NAME = "saved_model.pb"
LABELS_ASSET = "labels.txt"
# Requests that name no signature get `images`.
_SIGNATURES = {
    tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: "images",
    "images": "images",
    "encoded": "encoded",
}
_TAGS = [tf.saved_model.tag_constants.SERVING]


def write(folder, network_fn, spec, weights, label_names):
    """Writes a SavedModel.

    Args:
      folder: the folder to write to, which is empty or does not exist.
      network_fn: as for `serving_graph.build_for_images`.
      spec: a `serving_graph.InputSpec`.
      weights: a `weights.Weights`.
      label_names: the name of each class, a sequence of str.

    Raises:
      OSError: if it cannot be written.
      CheckpointError: as `weights.Weights.load`.
    """
    with tf.Graph().as_default(), tempfile.TemporaryDirectory() as assets:
        labels_file = os.path.join(assets, LABELS_ASSET)
        with open(labels_file, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{name}\n" for name in label_names)
        tensors = serving_graph.build_for_serving(network_fn, spec)
        serving_graph.add_best_classes(tensors.outputs, _names_in(labels_file))
        saver = tf.train.Saver(tf.global_variables())
        with open_session(on_cpu=True) as session:
            weights.load(session, tf.global_variables())
            try:
                _save(folder, session, tensors, saver)
            except tf.errors.OpError as error:
                # Before the last semicolon is the path of a temporary file.
                words = reason(error).rsplit("; ", 1)[-1]
                raise OSError(errno.EIO, words) from error


def _save(folder, session, tensors, saver):
    builder = tf.saved_model.builder.SavedModelBuilder(folder)
    builder.add_meta_graph_and_variables(
        session,
        _TAGS,
        signature_def_map=_signatures(tensors),
        assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
        main_op=tf.tables_initializer(),
        saver=saver,
        strip_default_attrs=True,
    )
    builder.save()


def _names_in(labels_file):
    """A function that looks the names of classes up in a file with one a line."""
    lines = tf.lookup.TextFileInitializer(
        labels_file,
        tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER,
        tf.string,
        tf.lookup.TextFileIndex.WHOLE_LINE,
    )
    return tf.lookup.StaticHashTable(lines, default_value="").lookup


def _signatures(tensors):
    return {
        key: tf.saved_model.signature_def_utils.predict_signature_def(
            {name: tensors.inputs[name]}, tensors.outputs
        )
        for key, name in _SIGNATURES.items()
    }


@dataclasses.dataclass
class NewVersion:
    """A folder for a SavedModel that is to become a version in another folder.

    Attributes:
      folder: where it is written.
      path: where it lies as a version, None before it is one.
    """

    folder: str
    path: str | None = None


@contextlib.contextmanager
def new_version(export_dir):
    """Makes a folder that becomes the next version of a model if all goes well.

    TensorFlow Serving watches for folders with a number for a name, and takes the highest.

    Args:
      export_dir: the folder of the versions, made if need be.

    Yields:
      A `NewVersion`. If the block ends with an exception, whatever it is, nothing is left of it.

    Raises:
      UsageError: if the folder cannot be written.
    """
    is_new = not os.path.exists(export_dir)
    make_folder(export_dir, "export_dir")
    # A server takes no notice of a name that is no number.
    try:
        with temporary_folder(export_dir, ".export-") as folder:
            version = NewVersion(folder)
            yield version
            os.chmod(folder, 0o755)
            version.path = _rename_to_next(folder, export_dir)
    except BaseException:
        if is_new:
            with contextlib.suppress(OSError):
                os.rmdir(export_dir)
        raise


def _rename_to_next(folder, export_dir):
    number = max(map(int, version_names(export_dir)), default=0)
    while True:
        number += 1
        path = os.path.join(export_dir, str(number))
        try:
            # Without this a file, or an empty folder, of another export would be replaced.
            if not os.path.lexists(path):
                os.rename(folder, path)
                return path
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise


def find(path):
    """Finds the SavedModel that a path means.

    Args:
      path: the folder of a SavedModel, its saved_model.pb, or the folder of its versions as
        TensorFlow Serving numbers them, of which the newest is taken.

    Returns:
      The folder, or None if there is none.
    """
    if os.path.basename(path) == FILE_NAME:
        path = os.path.dirname(path)
    if os.path.isfile(os.path.join(path, FILE_NAME)):
        return path
    versions = {name: os.path.join(path, name) for name in version_names(path)}
    there = [name for name in versions if os.path.isfile(os.path.join(versions[name], FILE_NAME))]
    return versions[max(there, key=int)] if there else None


def version_names(folder):
    """Returns the names in a folder that TensorFlow Serving takes for versions, if any."""
    if not os.path.isdir(folder):
        return []
    return [name for name in os.listdir(folder) if name.isascii() and name.isdecimal()]


@contextlib.contextmanager
def open_model(folder, on_cpu=False):
    """Opens a SavedModel as a server does.

    Args:
      folder: its folder.
      on_cpu: as for `distribution.open_session`.

    Yields:
      A function of the name of an input (a signature) and a batch that returns a dict of name to
      array of the outputs. It raises tf.errors.InvalidArgumentError if a file of `encoded` cannot
      be decoded.

    Raises:
      CheckpointError: if it cannot be read, or is none that `write` has written.
    """
    with tf.Graph().as_default(), open_session(on_cpu) as session:
        try:
            meta_graph = tf.saved_model.loader.load(session, _TAGS, folder)
        except (OSError, RuntimeError, ValueError, tf.errors.OpError) as error:
            raise CheckpointError(
                f"{folder} cannot be read as a SavedModel: it is damaged, or TensorFlow Serving "
                f"could not serve it either ({reason(error)[:120]!r}); export it again."
            ) from error
        signatures = meta_graph.signature_def

        def answer(signature, batch):
            inputs, outputs = signatures[signature].inputs, signatures[signature].outputs
            return session.run(
                {name: tensor.name for name, tensor in outputs.items()},
                {inputs[signature].name: batch},
            )

        _check_signatures(signatures, folder)
        yield answer


def _check_signatures(signatures, folder):
    wanted = {"images", "encoded"}
    if any(name not in signatures or name not in signatures[name].inputs for name in wanted):
        raise CheckpointError(
            f"{folder} is a SavedModel without the signatures {' and '.join(sorted(wanted))}; give "
            "one that export_inference_graph has written."
        )


def read_labels(folder):
    """Returns the name of each class of a SavedModel, a tuple of str.

    Args:
      folder: its folder.

    Raises:
      CheckpointError: if they cannot be read.
    """
    path = os.path.join(folder, "assets", LABELS_ASSET)
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            return tuple(line.removesuffix("\n") for line in file)
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(
            f"{path}, which names the classes, cannot be read; export the model again."
        ) from error
