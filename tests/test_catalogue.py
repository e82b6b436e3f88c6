"""The catalogue's facts, and fetching its entries from a server on this machine."""

import dataclasses
import hashlib
import os
import pathlib
import re

import numpy as np
import oracle
import programs
import pytest
from made_checkpoints import network_arrays, pack, save
from web_server import serve

from nets.nets_factory import NETWORKS
from slim_mp import fetch
from slim_mp.checkpoints import catalogue
from slim_mp.checkpoints.checkpoint_files import read_contents
from slim_mp.compat import tf
from slim_mp.errors import CheckpointError, UsageError
from slim_mp.files import download
from slim_mp.preprocessing import PREPROCESSINGS

CHECKPOINTS = pathlib.Path(__file__).parent.parent / "checkpoints"
ENTRIES = list(catalogue.entries().values())
SMALL = catalogue.get_entry("mobilenet_v1_0.25_128")
# What research/slim's README says outright.
WITHOUT_BACKGROUND = re.compile(r"(vgg|resnet_v1)_")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_entry_makes_sense(entry):
    assert entry.network in NETWORKS
    assert entry.name == entry.network or entry.name == entry.folder.replace("0.5_", "0.50_")
    assert re.fullmatch(r"[\w.-]+\.(tar\.gz|tgz)", entry.file)
    assert re.fullmatch(r"https://[\w./-]+/" + re.escape(entry.file), entry.url)
    assert re.fullmatch(r"[\w.-]+\.ckpt", entry.member)
    assert entry.num_classes == oracle.manifest(entry.network)["num_classes"]
    assert (entry.num_classes == 1000) == bool(WITHOUT_BACKGROUND.match(entry.name))
    assert entry.labels_offset == 1001 - entry.num_classes
    assert entry.classes_known_from in catalogue.CLASSES_KNOWN_FROM
    assert entry.preprocessing in PREPROCESSINGS
    assert entry.preprocessing == NETWORKS[entry.network].preprocessing
    assert entry.image_size >= NETWORKS[entry.network].min_image_size
    assert 40 < entry.top1 < entry.top5 < 100
    assert entry.licence.startswith("Apache-2.0")
    assert entry.sha256 is None or re.fullmatch("[0-9a-f]{64}", entry.sha256)


def test_the_catalogue_as_a_whole():
    assert len(ENTRIES) == 22
    for field in ("name", "file", "url", "folder"):
        assert len({getattr(entry, field) for entry in ENTRIES}) == len(ENTRIES)
    with_other_size = {
        entry.name: entry.image_size
        for entry in ENTRIES
        if entry.image_size != NETWORKS[entry.network].image_size
    }
    assert with_other_size == {
        "resnet_v2_50": 299,
        "resnet_v2_101": 299,
        "resnet_v2_152": 299,
        "mobilenet_v1_0.50_160": 160,
        "mobilenet_v1_0.25_128": 128,
    }


def test_what_was_read_from_the_weights_is_what_they_hold():
    confirmed = [entry for entry in ENTRIES if entry.classes_known_from == "weights"]
    assert [entry.name for entry in confirmed] == ["mobilenet_v1"]
    prefix, entry = catalogue.resolve("mobilenet_v1", str(CHECKPOINTS))
    assert entry is confirmed[0]
    shapes = read_contents(prefix).shapes
    assert shapes["MobilenetV1/Logits/Conv2d_1c_1x1/biases"] == (entry.num_classes,)


def test_an_unknown_name_is_offered_near_ones():
    with pytest.raises(UsageError, match=r"'resnet_50'.*Did you mean .*resnet_v1_50"):
        catalogue.get_entry("resnet_50")
    with pytest.raises(CheckpointError, match=r"No checkpoint at .*Did you mean .*resnet_v1_50"):
        catalogue.resolve("resnet_50", str(CHECKPOINTS))


def test_a_name_that_was_not_fetched_has_the_command_that_does(tmp_path):
    with pytest.raises(CheckpointError) as caught:
        catalogue.resolve("vgg_16", str(tmp_path))
    command = f"python -m slim_mp.fetch vgg_16 --checkpoints_dir={tmp_path}"
    assert str(caught.value).endswith(command)


def test_weights_of_a_clone_are_pointed_to_and_lie_there(tmp_path):
    for name in catalogue.entries():
        with pytest.raises(CheckpointError) as caught:
            catalogue.resolve(name, str(tmp_path / "with blanks"))
        is_said = "--checkpoints_dir=CLONE/checkpoints" in str(caught.value)
        assert is_said == (CHECKPOINTS / catalogue.get_entry(name).folder).is_dir(), name
        assert str(caught.value).endswith(f" --checkpoints_dir='{tmp_path}/with blanks'")
    assert CHECKPOINTS.name == catalogue.DEFAULT_FOLDER


def test_a_path_that_exists_goes_before_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prefix = save(tmp_path / "mobilenet_v1" / "model.ckpt", {"v": np.zeros(3, np.float32)})
    found, entry = catalogue.resolve("mobilenet_v1", str(CHECKPOINTS))
    assert entry is None
    assert os.path.samefile(found + ".index", prefix + ".index")


def test_the_folder_of_checkpoints(monkeypatch):
    monkeypatch.delenv(catalogue.FOLDER_VARIABLE, raising=False)
    assert catalogue.checkpoints_folder() == "checkpoints"
    monkeypatch.setenv(catalogue.FOLDER_VARIABLE, "~/weights")
    assert catalogue.checkpoints_folder() == os.path.expanduser("~/weights")
    assert catalogue.checkpoints_folder("given") == "given"


def test_a_checkpoint_is_published_by_network_classes_and_name():
    assert catalogue.published_as("resnet_v2_50", 1001, "DIR/x").name == "resnet_v2_50"
    assert catalogue.published_as("resnet_v2_50", 5, "DIR/x") is None
    assert catalogue.published_as("resnet_v2_200", 1001, "DIR/x") is None


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The bytes of an archive as research/slim publishes it, with made-up weights."""
    folder = tmp_path_factory.mktemp("published")
    save(folder / "files" / SMALL.member, network_arrays(SMALL.network))
    return pack(folder / SMALL.file, folder / "files")


@pytest.fixture(autouse=True)
def quickly_and_without_proxy(monkeypatch):
    monkeypatch.setattr(download, "PAUSE_SECONDS", 0.0)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("SLIM_MP_MIRROR", raising=False)


def get(site, folder, **changes):
    return fetch.fetch(dataclasses.replace(SMALL, **changes), str(folder), site.url + "/mirror/")


def test_fetched_over_a_broken_line_checked_unpacked_and_recorded(published, tmp_path):
    with serve(published) as site:
        site.cut_after = [100_000, 100_000]
        prefix = get(site, tmp_path)
        again = get(site, tmp_path)
    assert [path for path, _ in site.requests] == [f"/mirror/{SMALL.file}"] * 3
    assert prefix == again == str(tmp_path / SMALL.folder / SMALL.member)
    assert catalogue.resolve(SMALL.name, str(tmp_path)) == (prefix, SMALL)
    arrays = network_arrays(SMALL.network)
    reader = tf.train.NewCheckpointReader(prefix)
    for name, value in arrays.items():
        np.testing.assert_array_equal(reader.get_tensor(name), value)
    digest = hashlib.sha256(published).hexdigest()
    assert (tmp_path / f"{SMALL.file}.sha256").read_text() == f"{digest}  {SMALL.file}\n"
    assert sorted(os.listdir(tmp_path)) == sorted(
        [SMALL.folder, SMALL.file, f"{SMALL.file}.sha256"]
    )


def test_without_a_mirror_the_address_of_the_catalogue_is_used(published, tmp_path):
    with serve({"/there/" + SMALL.file: published}) as site:
        entry = dataclasses.replace(SMALL, url=f"{site.url}/there/{SMALL.file}")
        assert os.path.exists(fetch.fetch(entry, str(tmp_path)) + ".index")


def test_an_archive_that_was_copied_there_needs_no_network(published, tmp_path):
    (tmp_path / SMALL.file).write_bytes(published)
    assert fetch.fetch(SMALL, str(tmp_path), "http://127.0.0.1:9/").endswith(SMALL.member)


@pytest.mark.parametrize("known_from", ["catalogue", "record"])
def test_another_hash_than_the_known_one_is_refused(published, tmp_path, known_from):
    other = "0" * 64
    if known_from == "record":
        (tmp_path / f"{SMALL.file}.sha256").write_text(f"{other}  {SMALL.file}\n")
    changes = {"sha256": other} if known_from == "catalogue" else {}
    with serve(published) as site, pytest.raises(CheckpointError, match="SHA-256") as caught:
        get(site, tmp_path, **changes)
    assert other in str(caught.value)
    assert hashlib.sha256(published).hexdigest() in str(caught.value)
    assert not (tmp_path / SMALL.folder).exists()
    assert (tmp_path / f"{SMALL.file}.rejected").exists()


def test_the_known_hash_is_accepted(published, tmp_path):
    with serve(published) as site:
        get(site, tmp_path, sha256=hashlib.sha256(published).hexdigest())
    assert not (tmp_path / f"{SMALL.file}.sha256").exists()


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"v": np.zeros(3, np.float32)}, "does not hold the network mobilenet_v1_025"),
        (None, "damaged, or no gzipped tar"),
    ],
    ids=["another network", "a web page"],
)
def test_what_is_not_the_checkpoint_leaves_nothing_behind(tmp_path, arrays, words):
    body = b"<html>Please log in</html>"
    if arrays:
        save(tmp_path / "made" / "files" / SMALL.member, arrays)
        body = pack(tmp_path / "made" / "a.tgz", tmp_path / "made" / "files")
    with serve(body) as site, pytest.raises(CheckpointError, match=words):
        get(site, tmp_path / "into")
    assert os.listdir(tmp_path / "into") == [f"{SMALL.file}.rejected"]


def test_a_folder_without_the_checkpoint_is_said(tmp_path):
    (tmp_path / SMALL.folder).mkdir()
    with pytest.raises(CheckpointError, match=r"holds no .*remove the folder and fetch it again"):
        fetch.fetch(SMALL, str(tmp_path))


def test_the_program_lists_fetches_and_refuses(published, tmp_path, monkeypatch):
    program = "slim_mp.fetch"
    code, out, err = programs.call(program, "--help")
    assert (code, err) == (0, "")
    for flag in ("--checkpoints_dir:", "--mirror:", "--[no]list:"):
        assert flag in out
    code, out, _ = programs.call(program, "--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:-1]] == [e.name for e in ENTRIES]

    with serve(published) as site:
        monkeypatch.setenv("SLIM_MP_MIRROR", site.url)
        code, out, err = programs.call(program, SMALL.name, f"--checkpoints_dir={tmp_path}")
        assert (code, out) == (0, f"{tmp_path / SMALL.folder / SMALL.member}\n"), err
        site.statuses = [404]
        code, _, err = programs.call(program, "vgg_16", f"--checkpoints_dir={tmp_path}")
    assert code == 5
    assert "HTTP 404" in err
    for arguments, word in (([], "--list"), (["vgg16"], "vgg_16"), (["vgg_16", "x"], "'x'")):
        code, _, err = programs.call(program, *arguments, f"--checkpoints_dir={tmp_path}")
        assert code == 2
        assert word in err
