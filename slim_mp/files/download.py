"""Downloads over HTTP that survive a broken connection: a part file, resumed, whole or absent."""

import contextlib
import dataclasses
import hashlib
import http.client
import os
import re
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request

from absl import logging
from tqdm import tqdm

from slim_mp.errors import CheckpointError, UsageError
from slim_mp.files.input_files import reading

TIMEOUT_SECONDS = 60
# Tries in a row without a single new byte, and the pause before the second of them.
TRIES = 4
PAUSE_SECONDS = 1.0
_BLOCK = 1 << 20
_CONNECTION_ERRORS = (
    urllib.error.URLError,
    http.client.HTTPException,
    ConnectionError,
    TimeoutError,
)
_WORTH_ANOTHER_TRY = (408, 425, 429, 500, 502, 503, 504)


class _BrokenError(Exception):
    """The transfer ended early; what came is in the part file."""


@dataclasses.dataclass(frozen=True)
class _Target:
    """Where a file is to be put, and what is said if that cannot be."""

    path: str
    flag: str
    failure: type

    @property
    def part(self):
        return self.path + ".part"


def download(url, path, flag="checkpoints_dir", failure=CheckpointError):
    """Downloads a file, from where an earlier try stopped.

    What has come lies in PATH.part until it is complete. A server that ignores the request to go on
    from there (RFC 9110, section 14) sends all of it again.

    Args:
      url: its address, http or https.
      path: where to put it.
      flag: name of the flag that gave its folder, for errors.
      failure: the class of the error if the file cannot be had.

    Raises:
      CheckpointError, or `failure`: if the server cannot be reached, has no such file, or stops for
        good.
      UsageError: if the address is none, or the file cannot be written.
    """
    _check_address(url)
    target = _Target(path, flag, failure)
    part = target.part
    for taken in filter(os.path.isdir, (path, part)):
        raise UsageError(
            f"{taken} is a folder, and a file is to be downloaded to there; move it elsewhere, or "
            f"give another --{flag}."
        )
    idle = 0
    while True:
        before = _size(part)
        try:
            _transfer(url, target)
            break
        except _BrokenError as error:
            idle = idle + 1 if _size(part) <= before else 0
            if idle >= TRIES:
                raise failure(_given_up(url, path, part, error)) from error
            logging.info("%s: %s; trying again.", url, error)
            time.sleep(PAUSE_SECONDS * 2**idle)
    os.replace(part, path)


def sha256_of(path):
    """Returns the SHA-256 of a file, as 64 hexadecimal digits.

    Raises:
      DataError: if it cannot be read.
    """
    digest = hashlib.sha256()
    with reading(path), open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _check_address(url):
    try:
        parts = urllib.parse.urlsplit(url)
        host, _ = (parts.hostname or "").encode("idna"), parts.port
    except ValueError:
        # An open bracket, a port that is no number, or what no host can be called.
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise UsageError(f"{url!r} is no address; give one that begins with http:// or https://.")
    if not re.fullmatch("[!-~]*", parts.path + parts.query):
        raise UsageError(f"{url!r} is no address; write what is not plain ASCII in it as %XX.")


def _size(path):
    return os.path.getsize(path) if os.path.exists(path) else 0


def _given_up(url, path, part, error):
    have = _size(part)
    kept = f" {have} bytes are kept in {part}, and the next try goes on from there." if have else ""
    return (
        f"{url} cannot be downloaded ({error}).{kept} Check the network and the proxy settings, "
        f"name a mirror with --mirror, or copy the file to {path} and give the command again."
    )


def _transfer(url, target):
    """Appends to the part file what is missing; raises _BrokenError if it is not complete then."""
    start = _size(target.part)
    request = urllib.request.Request(url, headers={"User-Agent": "slim_mp"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        with _open(request) as response:
            if response.status != http.client.PARTIAL_CONTENT or _first_byte(response) != start:
                start = 0
            _receive(response, target, start)
    except urllib.error.HTTPError as error:
        with error:
            _handle_status(error, url, target, start)
    except _CONNECTION_ERRORS as error:
        raise _BrokenError(getattr(error, "reason", None) or error) from error


def _open(request):
    try:
        return urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except ValueError as error:
        # The address itself was checked, but not what a server or the environment adds.
        raise http.client.InvalidURL(f"a redirect or the proxy is no address: {error}") from error


def _first_byte(response):
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(found[1]) if found else None


def _handle_status(error, url, target, start):
    if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and start:
        if error.headers.get("Content-Range") == f"bytes */{start}":
            return
        os.remove(target.part)
        raise _BrokenError("the part file was longer than the file") from error
    if error.code in _WORTH_ANOTHER_TRY:
        raise _BrokenError(f"HTTP {error.code} {error.reason}") from error
    raise target.failure(
        f"{url} was refused by the server (HTTP {error.code} {error.reason}); check the address, "
        "or name a mirror with --mirror."
    ) from error


def _receive(response, target, start):
    # A length that is no number is none, as for Python's own client.
    total = None if response.length is None else start + response.length
    _check_space(target, total, start)
    with (
        _explained(target),
        open(target.part, "ab" if start else "wb") as file,
        tqdm(
            desc=os.path.basename(target.path),
            total=total,
            initial=start,
            unit="B",
            unit_scale=True,
            disable=None,
        ) as bar,
    ):
        while block := _read(response):
            file.write(block)
            bar.update(len(block))
    size = _size(target.part)
    if total is not None and size < total:
        raise _BrokenError(f"the connection ended at {size} of {total} bytes")


def _read(response):
    try:
        return response.read(_BLOCK)
    except (http.client.HTTPException, OSError) as error:
        raise _BrokenError(error) from error


def _check_space(target, total, start):
    folder = os.path.dirname(target.path)
    free = shutil.disk_usage(folder or ".").free
    if total is not None and total - start > free:
        raise UsageError(
            f"{folder} has {free / 1e6:.0f} MB free, and {(total - start) / 1e6:.0f} MB are still "
            f"to come; make room, or give another --{target.flag}."
        )


@contextlib.contextmanager
def _explained(target):
    """Turns what the file system says into an error that a user can mend."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"{target.part} cannot be written ({error.strerror or error}); make room, or give "
            f"another --{target.flag}. What has come is kept."
        ) from error
