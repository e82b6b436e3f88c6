"""Unpacks an archive from elsewhere: plain files inside one folder, all of them or none."""

import gzip
import os
import posixpath
import shutil
import tarfile
import tempfile
import zlib

from slim_mp.errors import CheckpointError, UsageError

_DAMAGED = (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error)
_BLOCK = 1 << 20


class _UnfitError(Exception):
    """An archive holds what must not be unpacked."""


def unpack(archive, folder, check, flag="checkpoints_dir", failure=CheckpointError):
    """Unpacks a gzipped tar archive into a new folder.

    Owners, modes and times of the archive are ignored.

    Args:
      archive: path of a .tar.gz or .tgz file.
      folder: the folder to make; until all is unpacked and checked it does not exist.
      check: function of the path of a folder with what was unpacked, which raises an error if that
        is not as it should be.
      flag: name of the flag that gave the folder, for errors.
      failure: the class of the error if the archive cannot be used.

    Raises:
      CheckpointError, or `failure`: if the archive is damaged or of another kind, or holds anything
        but plain files and folders with paths inside it.
      UsageError: if it cannot be written.
    """
    parent = os.path.dirname(os.path.abspath(folder))
    try:
        with tempfile.TemporaryDirectory(prefix=".unpack-", dir=parent) as temporary:
            inside = os.path.join(temporary, "files")
            os.mkdir(inside)
            _extract(archive, inside)
            check(inside)
            os.rename(inside, folder)
    except _UnfitError as error:
        raise failure(str(error)) from error
    except _DAMAGED as error:
        raise failure(
            f"{archive} is damaged, or no gzipped tar archive ({str(error)[:120]!r}); remove it "
            "and download it again."
        ) from error
    except OSError as error:
        raise UsageError(
            f"{archive} cannot be unpacked into {folder} ({error.strerror or error}); make room, "
            f"or give another --{flag}."
        ) from error


def _extract(archive, folder):
    with gzip.open(archive) as compressed:
        with tarfile.open(fileobj=compressed, mode="r|") as members:
            for member in members:
                path = os.path.join(folder, *_parts(member, archive))
                if member.isdir():
                    os.makedirs(path, exist_ok=True)
                    continue
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with members.extractfile(member) as source, open(path, "xb") as target:
                    shutil.copyfileobj(source, target, _BLOCK)
        # The checksum of gzip lies behind all that tar reads.
        while compressed.read(_BLOCK):
            pass


def _parts(member, archive):
    """The components of a member's path; an error if it is not a plain file or folder inside."""
    name = member.name
    kind = "a link" if member.issym() or member.islnk() else "neither a file nor a folder"
    if member.isfile() or member.isdir():
        parts = posixpath.normpath(name).split("/")
        is_inside = name and not posixpath.isabs(name) and ".." not in name.split("/")
        if is_inside and not any(sign in name for sign in "\\:\0"):
            return [part for part in parts if part != "."]
        kind = "a path that leads out of the folder"
    raise _UnfitError(
        f"{archive} holds {name!r}, which is {kind}; nothing of it was unpacked. Published "
        "archives hold plain files only: take it from another place."
    )
