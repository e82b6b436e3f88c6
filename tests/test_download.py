"""Downloads from a server on this machine that breaks, lies and refuses; and what is unpacked."""

import gzip
import io
import os
import resource
import socket
import tarfile

import numpy as np
import pytest
from web_server import serve

from slim_mp.errors import CheckpointError, DataError, UsageError
from slim_mp.files import download, unpack

BODY = np.random.RandomState(0).bytes(3_000_000)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(download, "PAUSE_SECONDS", 0.0)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def site():
    with serve(BODY) as site:
        yield site


def assert_whole(path):
    assert path.read_bytes() == BODY
    assert os.listdir(path.parent) == [path.name]


def test_a_file_arrives_whole(site, tmp_path):
    download.download(site.url + "/a/file.tgz", str(tmp_path / "file.tgz"))
    assert_whole(tmp_path / "file.tgz")
    assert site.requests == [("/a/file.tgz", None)]


def test_a_broken_download_goes_on_where_it_stopped(site, tmp_path):
    site.cut_after = [1_000_000, 700_000]
    download.download(site.url + "/file", str(tmp_path / "file"))
    assert_whole(tmp_path / "file")
    assert [wanted for _, wanted in site.requests] == [None, "bytes=1000000-", "bytes=1700000-"]


def test_a_later_call_goes_on_too(site, tmp_path):
    (tmp_path / "file.part").write_bytes(BODY[:2_000_001])
    download.download(site.url + "/file", str(tmp_path / "file"))
    assert_whole(tmp_path / "file")
    assert site.requests == [("/file", "bytes=2000001-")]


def test_a_server_that_ignores_ranges_sends_all_again(site, tmp_path):
    site.ranges = False
    site.cut_after = [1_000_000]
    download.download(site.url + "/file", str(tmp_path / "file"))
    assert_whole(tmp_path / "file")


@pytest.mark.parametrize("extra", [b"", b"of another file"])
def test_a_part_file_that_is_complete_or_too_long(site, tmp_path, extra):
    (tmp_path / "file.part").write_bytes(BODY + extra)
    download.download(site.url + "/file", str(tmp_path / "file"))
    assert_whole(tmp_path / "file")
    assert len(site.requests) == (2 if extra else 1)


@pytest.mark.parametrize("lengths", [None, lambda size: "many", lambda size: "-1"])
def test_a_response_without_a_length(site, tmp_path, lengths):
    site.lengths = lengths
    download.download(site.url + "/file", str(tmp_path / "file"))
    assert_whole(tmp_path / "file")


def test_a_busy_server_is_asked_again(site, tmp_path):
    site.statuses = [503, 429]
    download.download(site.url + "/file", str(tmp_path / "file"))
    assert_whole(tmp_path / "file")


def test_a_missing_file_is_said_at_once(site, tmp_path):
    site.statuses = [404]
    with pytest.raises(CheckpointError, match="HTTP 404") as caught:
        download.download(site.url + "/file", str(tmp_path / "file"))
    assert site.url + "/file" in str(caught.value)
    assert len(site.requests) == 1
    assert not os.listdir(tmp_path)


def test_a_server_that_stops_for_good_leaves_the_part(site, tmp_path):
    site.cut_after = [500_000] + [0] * download.TRIES
    with pytest.raises(CheckpointError, match="500000 bytes are kept"):
        download.download(site.url + "/file", str(tmp_path / "file"))
    assert len(site.requests) == 1 + download.TRIES
    assert (tmp_path / "file.part").read_bytes() == BODY[:500_000]


@pytest.mark.parametrize("address", ["http://[bad", f"http://{'a' * 90}/"])
def test_a_server_that_redirects_to_what_is_no_address(site, tmp_path, address):
    site.redirect = address
    with pytest.raises(CheckpointError, match="a redirect or the proxy is no"):
        download.download(site.url + "/file", str(tmp_path / "file"))
    assert not os.listdir(tmp_path)


def test_no_server_at_all(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/file"
        with pytest.raises(CheckpointError, match="refused") as caught:
            download.download(url, str(tmp_path / "file"))
    assert "--mirror" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/hosts",
        "/data/mirror",
        "http:///file",
        "",
        "http://[bad",
        "http://localhost:port/",
        "http://localhost:99999/",
        f"http://{'a' * 90}/",
        "http://a..b/",
        "http://localhost/größe",
        "http://localhost/a b",
    ],
)
def test_only_addresses_of_servers_are_taken(tmp_path, url):
    with pytest.raises(UsageError, match="no address"):
        download.download(url, str(tmp_path / "file"))


@pytest.mark.parametrize("name", ["file", "file.part"])
def test_a_folder_in_the_place_of_the_file_is_said(site, tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(UsageError, match=rf"{name} is a folder, .* give another --checkpoints_dir"):
        download.download(site.url + "/file", str(tmp_path / "file"))
    assert not site.requests


def test_what_has_no_bytes_has_no_hash(tmp_path):
    with pytest.raises(DataError, match=r"cannot be read \(Is a directory\)"):
        download.sha256_of(str(tmp_path))


def test_too_little_room_is_said_before_anything_comes(site, tmp_path, monkeypatch):
    monkeypatch.setattr(
        download.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1_000_000})
    )
    with pytest.raises(UsageError, match=r"1 MB free.*3 MB are still"):
        download.download(site.url + "/file", str(tmp_path / "file"))
    assert not os.listdir(tmp_path)


def test_a_file_system_that_refuses_more_bytes(site, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, limits[1]))
    try:
        with pytest.raises(UsageError, match="cannot be written"):
            download.download(site.url + "/file", str(tmp_path / "file"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    download.download(site.url + "/file", str(tmp_path / "file"))
    assert_whole(tmp_path / "file")


def archive(path, *members):
    """Writes a .tgz of pairs of name and content, or of ready TarInfos."""
    with tarfile.open(path, "w:gz") as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
                continue
            name, content = member
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return str(path)


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def accept(folder):
    assert os.path.isdir(folder)


def test_plain_files_and_folders_are_unpacked(tmp_path):
    path = archive(
        tmp_path / "a.tgz",
        special("./", tarfile.DIRTYPE),
        ("./model.ckpt", b"weights"),
        ("deep/er/file", b"x"),
    )
    unpack.unpack(path, str(tmp_path / "a"), accept)
    assert (tmp_path / "a" / "model.ckpt").read_bytes() == b"weights"
    assert (tmp_path / "a" / "deep" / "er" / "file").read_bytes() == b"x"
    assert sorted(os.listdir(tmp_path)) == ["a", "a.tgz"]


BAD_MEMBERS = {
    "parent": ("../outside", b"x"),
    "parent inside": ("a/../../outside", b"x"),
    "absolute": ("/tmp/outside", b"x"),
    "backslash": ("..\\outside", b"x"),
    "symbolic link": special("link", tarfile.SYMTYPE, "/etc/passwd"),
    "hard link": special("link", tarfile.LNKTYPE, "model.ckpt"),
    "device": special("null", tarfile.CHRTYPE),
    "pipe": special("pipe", tarfile.FIFOTYPE),
    "parent folder": special("..", tarfile.DIRTYPE),
}


@pytest.mark.parametrize("kind", BAD_MEMBERS)
def test_an_archive_with_anything_else_leaves_nothing(tmp_path, kind):
    path = archive(tmp_path / "a.tgz", ("model.ckpt", b"weights"), BAD_MEMBERS[kind])
    with pytest.raises(CheckpointError, match="nothing of it was unpacked"):
        unpack.unpack(path, str(tmp_path / "a"), accept)
    assert os.listdir(tmp_path) == ["a.tgz"]


def test_a_link_cannot_redirect_a_later_file(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    path = archive(
        tmp_path / "a.tgz", special("d", tarfile.SYMTYPE, str(outside)), ("d/file", b"x")
    )
    with pytest.raises(CheckpointError):
        unpack.unpack(path, str(tmp_path / "a"), accept)
    assert not os.listdir(outside)


def test_a_damaged_archive_leaves_nothing(tmp_path):
    whole = contents(archive(tmp_path / "a.tgz", ("model.ckpt", BODY[:100_000])))
    flipped = bytearray(gzip.compress(gzip.decompress(whole)))
    flipped[-6] ^= 1
    for content in (whole[:-9], whole[: len(whole) // 2], bytes(flipped), b"<html>", b""):
        (tmp_path / "a.tgz").write_bytes(content)
        with pytest.raises(CheckpointError, match=r"damaged, or no gzipped tar"):
            unpack.unpack(str(tmp_path / "a.tgz"), str(tmp_path / "a"), accept)
        assert os.listdir(tmp_path) == ["a.tgz"]


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def test_what_fails_the_check_is_not_kept(tmp_path):
    def refuse(folder):
        assert os.listdir(folder) == ["file"]
        raise CheckpointError("no")

    path = archive(tmp_path / "a.tgz", ("file", b"x"))
    with pytest.raises(CheckpointError, match="no"):
        unpack.unpack(path, str(tmp_path / "a"), refuse)
    assert os.listdir(tmp_path) == ["a.tgz"]
