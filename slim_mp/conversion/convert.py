"""From a folder or a list of image files to a set of record files."""

import dataclasses
import os
import re
import shutil

from absl import logging
from tqdm import tqdm

from slim_mp.conversion import record_writer
from slim_mp.conversion.image_records import ImageRecords, spread_evenly
from slim_mp.data import image_files, record_sets
from slim_mp.data.datasets import SYNTHETIC
from slim_mp.data.image_lists import CSV, JSON_LINES, is_list
from slim_mp.errors import DataError, UsageError
from slim_mp.files.input_files import few, shown
from slim_mp.files.output_files import make_folder, only_run_in
from slim_mp.stop_signals import StopRequested, StopSignals

SHARD_BYTES = 128 * 2**20
MOST_SHARDS = 99_999

_NAMED = 5


@dataclasses.dataclass(frozen=True)
class ConversionConfig:
    """What to convert, and how.

    Attributes:
      source: a folder or a list of images, as for `datasets.open_dataset`.
      output_dir: the folder for the record files.
      name: the name of the set.
      num_shards: files of each split, or None for as many as hold about `SHARD_BYTES` each.
      num_workers: threads that read and decode images.
      max_bad_images: how many files that are no usable images are left out.
      overwrite: whether a set of that name in the folder is replaced.
    """

    source: str
    output_dir: str
    name: str = "photos"
    num_shards: int | None = None
    num_workers: int = 1
    max_bad_images: int = 0
    overwrite: bool = False

    def __post_init__(self):
        # A name with a slash would write elsewhere, one with a star would be read as a pattern.
        if not re.fullmatch(r"\w[\w.-]*", self.name) or self.name == SYNTHETIC:
            raise UsageError(
                f"The name of the set is {shown(self.name)} (--dataset_name); it must be of "
                f"letters, digits, dots, dashes and underscores, and not {SYNTHETIC!r}."
            )
        for field, low in (("num_shards", 1), ("num_workers", 1), ("max_bad_images", 0)):
            value = getattr(self, field)
            if value is not None and value < low:
                raise UsageError(f"--{field} is {value}; it must be at least {low}.")
        if (self.num_shards or 0) > MOST_SHARDS:
            raise UsageError(
                f"--num_shards is {self.num_shards}; it must be at most {MOST_SHARDS}."
            )


@dataclasses.dataclass(frozen=True)
class Conversion:
    """What was written.

    Attributes:
      output_dir: the folder of the record files.
      num_classes: the number of classes.
      counts: a dict of split to its number of images.
      left_out: paths of the files that are no usable images.
    """

    output_dir: str
    num_classes: int
    counts: dict
    left_out: tuple = ()

    def describe(self):
        """Returns a line on what was written."""
        splits = ", ".join(f"{count} {split}" for split, count in self.counts.items())
        line = (
            f"wrote {sum(self.counts.values())} images of {self.num_classes} classes: {splits} in "
            f"{self.output_dir}"
        )
        if not self.left_out:
            return line
        names = few([os.path.basename(path) for path in self.left_out], _NAMED)
        return f"{line}; left out {len(self.left_out)} as bad: {names}"


def convert(config):
    """Writes the images of a folder or list as a set of record files with a labels.txt.

    In each split each class is spread evenly over all files, in a shuffled order. The same images
    give the same bytes, whatever the number of workers.

    Args:
      config: a `ConversionConfig`.

    Returns:
      A `Conversion`, or None if a signal has stopped it; nothing is kept then.

    Raises:
      UsageError: if the set cannot be written, or there is one of that name already.
      DataError: if there is no such folder or list, or it has no classes, no images or too many
        bad ones.
    """
    source = os.path.expanduser(config.source)
    _check_places(source, config.output_dir)
    splits = _images_by_split(source)
    label_names = _label_names(splits, source)
    _check_names(config.name, splits)
    make_folder(config.output_dir, "output_dir")
    _check_room(splits, config.output_dir)
    with only_run_in(config.output_dir, "output_dir"), StopSignals() as signals:
        try:
            return _convert(config, source, splits, label_names)
        except StopRequested:
            logging.info("Stopped by %s; the same command begins again.", signals.received)
            return None


def _check_places(source, output_dir):
    if not os.path.isdir(source) and not (is_list(source) and os.path.isfile(source)):
        raise DataError(
            f"--input={source} is neither a folder nor a list of images that ends in {CSV} or "
            f"{JSON_LINES}, or does not exist; give one of them."
        )
    inside = os.path.join(os.path.realpath(source), "")
    if os.path.join(os.path.realpath(output_dir), "").startswith(inside):
        raise UsageError(
            f"--output_dir={output_dir} is inside the folder of the images, where the record files "
            "would be among them; give a folder elsewhere."
        )


def _images_by_split(source):
    """The `ImageFiles` of each split."""
    find = image_files.from_folder if os.path.isdir(source) else image_files.from_list
    try:
        return {split: find(source, split) for split in image_files.splits_of(source)}
    except DataError as error:
        # What also reads images for training names the flag of that.
        raise DataError(str(error).replace("--dataset_dir", "--input")) from error


def _label_names(splits, source):
    names = {images.label_names for images in splits.values()}
    if len(names) > 1:
        raise DataError(
            f"The splits {few(list(splits))} of {source} have different classes; add a folder "
            "'train' with all of them, or list files and labels in a .csv file (--input)."
        )
    return names.pop()


def _check_names(name, splits):
    for split in splits:
        # An underscore would pass for a part of the name, a slash would write elsewhere.
        if not re.fullmatch(r"[^\W_]+(-[^\W_]+)*", split):
            raise DataError(
                f"A split is called {shown(split)}; the name of a split must be of letters, digits "
                "and dashes."
            )
        if not record_sets.is_read(name, split, record_writer.shard_names(name, split, 1)[0]):
            raise UsageError(
                f"--dataset_name={name} stands for a published set, whose files have other names "
                f"or which has no split {split!r}; give another name."
            )


def _check_room(splits, output_dir):
    needed = sum(images.estimated_bytes() for images in splits.values())
    free = shutil.disk_usage(output_dir).free
    if needed > free:
        raise UsageError(
            f"{output_dir} has {free / 1e6:.0f} MB free, and the images take about "
            f"{needed / 1e6:.0f} MB; make room, or give another --output_dir."
        )


def _convert(config, source, splits, label_names):
    base = source if os.path.isdir(source) else os.path.dirname(source)
    with (
        record_writer.new_set(
            config.output_dir, config.name, label_names, "output_dir", config.overwrite
        ) as new_set,
        ImageRecords(config.num_workers, config.max_bad_images) as records,
    ):
        counts = {
            split: write_split(
                new_set, records, (config.name, split), images, base, config.num_shards
            )
            for split, images in splits.items()
        }
    log_turned(records.num_turned)
    return Conversion(config.output_dir, len(label_names), counts, tuple(records.left_out))


def write_split(new_set, records, name_and_split, images, base, num_shards=None):
    """Writes the record files of a split.

    Args:
      new_set: a `record_writer.NewSet`.
      records: an open `ImageRecords`.
      name_and_split: the name of the set and the split.
      images: the `ImageFiles` of the split.
      base: the folder that the names of the files in the records are relative to.
      num_shards: the number of files, or None for as many as hold about `SHARD_BYTES` each; there
        are no more than images.

    Returns:
      The number of images written.

    Raises:
      UsageError: if a file cannot be written.
      DataError: if there are too many bad images, or no good one.
    """
    name, split = name_and_split
    order = spread_evenly(images.labels)
    wanted = num_shards or -(-images.estimated_bytes() // SHARD_BYTES)
    shards = record_writer.shard_names(name, split, max(1, min(wanted, len(order), MOST_SHARDS)))
    count = 0
    with tqdm(desc=split, total=len(order), unit="image", disable=None) as bar:
        for number, file in enumerate(shards):
            first, end = (len(order) * n // len(shards) for n in (number, number + 1))
            made = records.make(images, order[first:end], base, bar.update)
            count += new_set.write_records(file, made)
    if not count:
        raise DataError(f"No image of the split {split!r} can be used; nothing was written.")
    return count


def log_turned(count):
    """Logs how many images are stored on their side, since their bytes are copied as they are."""
    if count:
        logging.info(
            "Images that are turned or mirrored by their Exif orientation: %d. Their bytes were "
            "copied as they are; slim_mp turns them upright when it reads them.",
            count,
        )
