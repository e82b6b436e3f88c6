"""Fetches published checkpoints of TF-Slim.

python -m slim_mp.fetch NAME... [--checkpoints_dir=checkpoints] [--mirror=URL]
python -m slim_mp.fetch --list
"""

import os
import re

from absl import logging

from slim_mp.checkpoints import catalogue
from slim_mp.checkpoints.checkpoint_files import read_contents
from slim_mp.checkpoints.identity import identify
from slim_mp.errors import CheckpointError, UsageError
from slim_mp.files.download import download, sha256_of
from slim_mp.files.input_files import reading
from slim_mp.files.output_files import make_folder, write_whole
from slim_mp.files.unpack import unpack
from slim_mp.flags import checkpoint_flags
from slim_mp.flags.program import run_program


def fetch(entry, folder, mirror=None):
    """Fetches and unpacks a published checkpoint, unless it is there already.

    The archive stays in the folder; one that was copied there by hand is taken as if downloaded.
    Its SHA-256 is held to that of the catalogue, or else to the one that was recorded in
    FILE.sha256 when it was unpacked for the first time.

    Args:
      entry: a `catalogue.Entry`.
      folder: where to put the archive, and the folder with what was in it.
      mirror: address of a folder that has a file of the archive's name, or None for the address
        of the catalogue.

    Returns:
      The prefix of the checkpoint.

    Raises:
      CheckpointError: if it cannot be downloaded, is damaged, has another hash or is another
        network's.
      DataError: if the archive that is there, or its recorded SHA-256, cannot be read.
      UsageError: if the folder cannot be written or the mirror is no address.
    """
    target = os.path.join(folder, entry.folder)
    if os.path.isdir(target):
        logging.info("%s is there already: %s", entry.name, target)
        return catalogue.locate(entry, target)
    make_folder(folder, "checkpoints_dir")
    archive = os.path.join(folder, entry.file)
    if not os.path.exists(archive):
        download(f"{mirror.rstrip('/')}/{entry.file}" if mirror else entry.url, archive)
    try:
        digest = _checked_hash(entry, archive)
        unpack(archive, target, lambda inside: _check_network(entry, inside))
    except CheckpointError as error:
        os.replace(archive, archive + ".rejected")
        raise CheckpointError(f"{error} It was renamed to {archive}.rejected.") from error
    if digest:
        write_whole(archive + ".sha256", f"{digest}  {entry.file}\n")
        logging.info("SHA-256 of %s, recorded: %s", entry.file, digest)
    return catalogue.locate(entry, target)


def _checked_hash(entry, archive):
    """Compares the hash with the one that is known; returns it where none is known yet."""
    digest = sha256_of(archive)
    recorded = archive + ".sha256"
    known, source = entry.sha256, "the catalogue"
    if not known and os.path.exists(recorded):
        known, source = _read_hash(recorded), recorded
    if known and known != digest:
        raise CheckpointError(
            f"{archive} is not the file it was: its SHA-256 is {digest}, and {source} says {known}."
        )
    return None if known else digest


def _read_hash(path):
    with reading(path), open(path, encoding="utf-8", errors="replace") as file:
        found = re.match(r"[0-9a-f]{64}\b", file.read())
    if not found:
        raise UsageError(f"{path} holds no SHA-256; remove it to have a new one recorded.")
    return found[0]


def _check_network(entry, folder):
    """Compares what the variables say with what the catalogue says."""
    identity = identify(read_contents(catalogue.locate(entry, folder)))
    if entry.network not in identity.networks:
        raise CheckpointError(
            f"{entry.file} does not hold the network {entry.network}, but "
            f"{identity.describe_network()}."
        )
    if identity.num_classes != entry.num_classes:
        logging.warning(
            "%s has a head of %s classes; the catalogue says %d (%s). What it holds counts.",
            entry.name,
            identity.num_classes,
            entry.num_classes,
            entry.classes_known_from,
        )


def _listing():
    rows = [
        f"{entry.name:24}{entry.top1:6.1f}{entry.top5:6.1f}{entry.num_classes:8}"
        f"{'*' if entry.classes_known_from == 'inferred' else ' '} "
        f"{entry.preprocessing:10}{entry.image_size:5}  {entry.licence}"
        for entry in catalogue.entries().values()
    ]
    heads = f"{'name':24}{'top-1':>6}{'top-5':>6}{'classes':>8}  {'input':10} size  licence"
    note = "* not stated by the publisher; checked against the weights when they are fetched"
    return "\n".join([heads, *rows, note])


def main(names):
    """Fetches what was named and prints where each lies."""
    request = checkpoint_flags.fetch_request()
    if request.list_only:
        print(_listing())
        return
    if not names:
        raise UsageError("Name the checkpoints to fetch; --list shows them all.")
    entries = [catalogue.get_entry(name) for name in names]
    for entry in entries:
        print(fetch(entry, request.folder, request.mirror))


def run():
    """Runs the program."""
    checkpoint_flags.define_fetch_flags()
    run_program(main, takes_operands=True)


if __name__ == "__main__":
    run()
