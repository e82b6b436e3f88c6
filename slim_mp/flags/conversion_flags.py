"""The flags of convert_images and download_and_convert_data, and what is made of them."""

import dataclasses
import os

from absl import flags

from slim_mp.conversion.convert import SHARD_BYTES, ConversionConfig
from slim_mp.conversion.published_sets import DATASETS
from slim_mp.errors import UsageError

FLAGS = flags.FLAGS


def define_conversion_flags():
    """Defines the flags of convert_images."""
    flags.DEFINE_string(
        "input",
        None,
        "The images: a folder with one sub-folder a class, which may lie in folders train, "
        "validation and test, or a .csv or .jsonl list of file and label.",
    )
    flags.DEFINE_string("output_dir", None, "Folder for the record files and labels.txt.")
    flags.DEFINE_string("dataset_name", "photos", "Name of the set, which its files begin with.")
    flags.DEFINE_integer(
        "num_shards",
        None,
        f"Files of each split; by default as many as hold about {SHARD_BYTES >> 20} MB each.",
    )
    flags.DEFINE_integer(
        "num_workers", None, "Threads that read and decode images; by default one for each core."
    )
    flags.DEFINE_integer(
        "max_bad_images",
        0,
        "Files that are no usable images and may be left out; one more ends the conversion.",
    )
    flags.DEFINE_boolean("overwrite", False, "Replace the set of that name in the folder.")


def conversion_config():
    """Returns the ConversionConfig of the flags.

    Raises:
      UsageError: if one is missing or out of its range; the message names it.
    """
    _require("input", "the images: a folder with one sub-folder a class, or a list")
    _require("output_dir", "the folder for the record files")
    return ConversionConfig(
        source=FLAGS.input,
        output_dir=os.path.expanduser(FLAGS.output_dir),
        name=FLAGS.dataset_name,
        num_shards=FLAGS.num_shards,
        num_workers=_cores() if FLAGS.num_workers is None else FLAGS.num_workers,
        max_bad_images=FLAGS.max_bad_images,
        overwrite=FLAGS.overwrite,
    )


def define_download_flags():
    """Defines the flags of download_and_convert_data."""
    flags.DEFINE_enum("dataset_name", None, list(DATASETS), "The published set.")
    flags.DEFINE_string("dataset_dir", None, "Folder for the downloads and the record files.")
    flags.DEFINE_string(
        "mirror",
        None,
        "Address of a folder with the published files, in place of their published addresses.",
    )


@dataclasses.dataclass(frozen=True)
class DownloadRequest:
    """What download_and_convert_data was asked for.

    Attributes:
      name: a key of `published_sets.DATASETS`.
      folder: where to put the downloads and the record files.
      mirror: address of a folder with the published files, or None.
      num_workers: threads that decode and encode images.
    """

    name: str
    folder: str
    mirror: str | None
    num_workers: int


def download_request():
    """Returns the DownloadRequest of the flags.

    Raises:
      UsageError: if one is missing; the message names it.
    """
    _require("dataset_name", f"one of {', '.join(DATASETS)}")
    _require("dataset_dir", "the folder for the downloads and the record files")
    folder = os.path.expanduser(FLAGS.dataset_dir)
    return DownloadRequest(FLAGS.dataset_name, folder, FLAGS.mirror, _cores())


def _require(name, what):
    if not FLAGS[name].value:
        raise UsageError(f"Give --{name}: {what} (--help lists the flags).")


def _cores():
    # Not all of the machine's may be this process's; only Linux says how many are.
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1
