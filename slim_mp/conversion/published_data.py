"""Downloads published sets of images, checks them, and has them written as record files."""

import os

from absl import logging

from slim_mp.conversion import record_writer
from slim_mp.conversion.convert import Conversion
from slim_mp.conversion.published_sets import DATASETS, FLAG
from slim_mp.data.datasets import open_dataset
from slim_mp.errors import DataError
from slim_mp.files.download import download, sha256_of
from slim_mp.files.output_files import make_folder, only_run_in, writing
from slim_mp.stop_signals import StopRequested, StopSignals


def download_and_convert(name, folder, mirror=None, num_workers=1):
    """Downloads a published set and writes it as record files with a labels.txt.

    The downloads stay in the folder; a file that was copied there by hand is taken as if
    downloaded. A set that is there already is left as it is.

    Args:
      name: a key of `published_sets.DATASETS`.
      folder: where to put the downloads and the record files.
      mirror: address of a folder with the published files, or None for their own addresses.
      num_workers: threads that read and decode photographs.

    Returns:
      A line on what was written or is there, or None if a signal has stopped it.

    Raises:
      DataError: if a file cannot be downloaded or is not the published one, or what is there is
        damaged.
      UsageError: if the folder cannot be written, holds a set of other classes, or the mirror is no
        address.
    """
    published = DATASETS[name]
    make_folder(folder, FLAG)
    with only_run_in(folder, FLAG), StopSignals() as signals:
        try:
            record_writer.finish_move(folder, name, FLAG)
            return _what_is_there(name, published, folder) or _write(
                name, published, folder, mirror, num_workers
            )
        except StopRequested:
            logging.info("Stopped by %s; the same command goes on.", signals.received)
            return None


def _what_is_there(name, published, folder):
    """A line on a set that is whole; None if there is nothing."""
    if not record_writer.files_of(folder, name):
        return None
    try:
        sets = [open_dataset(name, split, folder) for split in published.splits]
    except DataError as error:
        raise DataError(
            f"{error} If the files of {name!r} are removed, they are written again."
        ) from error
    counts = ", ".join(f"{one.num_examples} {one.split}" for one in sets)
    return f"{name} is in {folder} already: {counts}"


def _write(name, published, folder, mirror, num_workers):
    with record_writer.new_set(folder, name, published.label_names, FLAG, None) as new_set:
        paths = [_fetch(one, folder, mirror) for one in published.downloads]
        counts = published.write(new_set, paths, num_workers)
    return Conversion(folder, len(published.label_names), counts).describe()


def _fetch(published, folder, mirror):
    """Downloads a file, unless it is there, and checks it; returns its path."""
    path = os.path.join(folder, published.file)
    if not os.path.exists(path):
        url = f"{mirror.rstrip('/')}/{published.file}" if mirror else published.url
        download(url, path, FLAG, DataError)
    digest = sha256_of(path)
    if digest != published.sha256:
        with writing(FLAG, folder):
            os.replace(path, path + ".rejected")
        raise DataError(
            f"{path} is not the published file: its SHA-256 is {digest}, not {published.sha256}. "
            f"It was renamed to {path}.rejected; give the command again to download it anew."
        )
    return path
