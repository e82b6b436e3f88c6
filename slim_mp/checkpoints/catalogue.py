"""The published checkpoints of TF-Slim: where they lie, what they hold, and how they were trained.

The facts of `catalogue.json` are those of research/slim's README, the accuracies for a single crop
of the ILSVRC-2012 validation set.
"""

import dataclasses
import difflib
import functools
import json
import os
import re
import shlex

from slim_mp.checkpoints.checkpoint_files import find_checkpoint
from slim_mp.errors import CheckpointError, UsageError

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "catalogue.json")
DEFAULT_FOLDER = "checkpoints"
FOLDER_VARIABLE = "SLIM_MP_CHECKPOINTS_DIR"
# Names of the entries whose weights lie in DEFAULT_FOLDER of the repository.
_IN_A_CLONE = ("mobilenet_v1",)
CLASSES_KNOWN_FROM = ("weights", "readme", "inferred")


@dataclasses.dataclass(frozen=True)
class Entry:
    """A published checkpoint.

    Attributes:
      name: what --checkpoint_path and slim_mp.fetch call it.
      network: the --model_name it belongs to.
      file: name of the archive.
      url: address of the archive.
      member: the checkpoint inside it, as tf.train.Saver takes it.
      num_classes: classes of its head.
      classes_known_from: how that is known: "weights" (read from the weights themselves), "readme"
        (stated there) or "inferred" (not stated outright; a download is checked against it).
      labels_offset: what is subtracted from ImageNet's labels, of 1001 classes with background.
      preprocessing: the style of preprocessing it was trained with.
      image_size: height and width in pixels that the accuracy was published for.
      top1, top5: published accuracy in percent.
      licence: under which it is published.
      sha256: of the archive, in hex, or None as long as nobody has verified one.
    """

    name: str
    network: str
    file: str
    url: str
    member: str
    num_classes: int
    classes_known_from: str
    labels_offset: int
    preprocessing: str
    image_size: int
    top1: float
    top5: float
    licence: str
    sha256: str | None

    @property
    def folder(self):
        """The name of the folder that the archive is unpacked to."""
        return re.sub(r"\.(tar\.gz|tgz)$", "", self.file)


@functools.cache
def entries():
    """Returns all entries, a dict of name to `Entry`."""
    with open(PATH, encoding="utf-8") as file:
        return {name: Entry(name, **row) for name, row in json.load(file).items()}


def get_entry(name):
    """Looks an entry up.

    Raises:
      UsageError: for an unknown name; the message offers near ones.
    """
    if name not in entries():
        raise UsageError(
            f"There is no published checkpoint {name!r}. {_near(name)}All of them: "
            f"{', '.join(entries())}."
        )
    return entries()[name]


def _near(name):
    near = difflib.get_close_matches(name, entries(), n=3, cutoff=0.6)
    return f"Did you mean {' or '.join(near)}? " if near else ""


def checkpoints_folder(given=None):
    """Returns the folder of downloaded checkpoints: the one given, that of the environment
    variable SLIM_MP_CHECKPOINTS_DIR, or `checkpoints`."""
    return os.path.expanduser(given or os.environ.get(FOLDER_VARIABLE) or DEFAULT_FOLDER)


def locate(entry, folder):
    """Finds the checkpoint of an entry where its archive was unpacked.

    Args:
      entry: an `Entry`.
      folder: path of the folder it was unpacked to; the checkpoint may lie in a folder of it.

    Returns:
      The prefix that tf.train.Saver takes.

    Raises:
      CheckpointError: if it is not there, or damaged.
    """
    for parent, _, files in os.walk(folder):
        if entry.member in files or f"{entry.member}.index" in files:
            return find_checkpoint(os.path.join(parent, entry.member))
    raise CheckpointError(
        f"{folder} holds no {entry.member}, which is what {entry.file} is unpacked for; remove the "
        f"folder and fetch it again: python -m slim_mp.fetch {entry.name}"
    )


def resolve(path, folder):
    """Finds what --checkpoint_path means: a path that exists, or else a name of the catalogue.

    Args:
      path: file, prefix or folder of a checkpoint, or the name of an entry.
      folder: the folder of downloaded checkpoints.

    Returns:
      A pair: the prefix that tf.train.Saver takes, and the Entry if it was given by name, or None.

    Raises:
      CheckpointError: if there is no checkpoint, or it is damaged. For an entry that is not there
        yet the message has the command that fetches it.
    """
    if path not in entries() or os.path.exists(path):
        try:
            return find_checkpoint(path), None
        except CheckpointError as error:
            if os.path.exists(path) or os.path.dirname(path) or not _near(path):
                raise
            raise CheckpointError(f"{error} Of the published checkpoints: {_near(path)}") from error
    entry = entries()[path]
    unpacked = os.path.join(folder, entry.folder)
    if not os.path.isdir(unpacked):
        raise CheckpointError(
            f"The published checkpoint {path} is not in {unpacked} yet; {_clone_hint(path)}"
            f"fetch it first: python -m slim_mp.fetch {path} "
            f"--checkpoints_dir={shlex.quote(folder)}"
        )
    return locate(entry, unpacked), entry


def _clone_hint(name):
    if name not in _IN_A_CLONE:
        return ""
    return (
        "it comes with a clone of the project: give --checkpoints_dir=CLONE/"
        f"{DEFAULT_FOLDER} with the clone's folder, or "
    )


def published_as(network, num_classes, prefix):
    """Finds which published checkpoint a checkpoint with a network's variables is.

    Args:
      network: a network's name.
      num_classes: the number of classes of its head, or None.
      prefix: of the checkpoint; one that is called as a member of an archive is that.

    Returns:
      An `Entry`, or None.
    """
    fitting = [
        entry
        for entry in entries().values()
        if entry.network == network and entry.num_classes == num_classes
    ]
    named = [entry for entry in fitting if entry.member == os.path.basename(prefix)]
    return next(iter(named or fitting), None)
