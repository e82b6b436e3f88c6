"""Checkpoints that tf.train.Saver wrote, whole and damaged in every way a disk or a copy can."""

import os
import pathlib
import shutil

import numpy as np
import pytest

from slim_mp.checkpoints import checkpoint_files
from slim_mp.compat import tf
from slim_mp.errors import CheckpointError

CHECKPOINTS = pathlib.Path(__file__).parent.parent / "checkpoints"
MOBILENET = CHECKPOINTS / "mobilenet_v1_1.0_224" / "mobilenet_v1_1.0_224.ckpt"


def save(path, version=tf.train.SaverDef.V2, step=None, shards=1, keep_state=True, extra=()):
    """Writes a checkpoint of two variables and a global step on as many devices as shards."""
    config = tf.ConfigProto(device_count={"CPU": shards})
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        values = np.random.RandomState(0).normal(size=(30, 40)).astype(np.float32)
        for number in range(2):
            with tf.device(f"/cpu:{number % shards}"):
                tf.get_variable(f"net/v{number}", initializer=values)
        with tf.device("/cpu:0"):
            tf.get_variable("global_step", initializer=np.int64(step or 7))
            for name, value in extra:
                tf.Variable(value, name=name)
        session.run(tf.global_variables_initializer())
        saver = tf.train.Saver(write_version=version, sharded=shards > 1)
        return saver.save(session, str(path), step, write_meta_graph=False, write_state=keep_state)


@pytest.fixture(autouse=True)
def log_everything(caplog):
    caplog.set_level("INFO")


def assert_refused(path, *words):
    with pytest.raises(CheckpointError) as caught:
        checkpoint_files.find_checkpoint(str(path))
    for word in (str(path).rstrip("/"), *words):
        assert word in str(caught.value)


@pytest.mark.parametrize("suffix", ["", ".index", ".data-00000-of-00001"])
def test_the_published_weights_are_found_by_prefix_and_file(suffix):
    assert checkpoint_files.find_checkpoint(f"{MOBILENET}{suffix}") == str(MOBILENET)


def test_the_published_weights_are_found_by_folder():
    for path in (f"{MOBILENET.parent}", f"{MOBILENET.parent}/"):
        found = checkpoint_files.find_checkpoint(path)
        assert os.path.samefile(found + ".index", f"{MOBILENET}.index")
    contents = checkpoint_files.read_contents(str(MOBILENET))
    assert contents.shapes["MobilenetV1/Conv2d_0/weights"] == (3, 3, 3, 32)
    assert set(contents.dtypes.values()) == {tf.float32}
    assert checkpoint_files.global_step_of(str(MOBILENET)) is None


def test_a_v1_file_is_found_by_name_and_by_folder(tmp_path):
    path = save(tmp_path / "inception_v3.ckpt", tf.train.SaverDef.V1, keep_state=False)
    assert os.path.isfile(path)
    assert checkpoint_files.find_checkpoint(path) == path
    assert checkpoint_files.find_checkpoint(str(tmp_path)) == path
    assert checkpoint_files.global_step_of(path) == 7


def test_names_that_look_like_patterns(tmp_path):
    path = save(tmp_path / "a {1} * ?" / "model.ckpt", step=3)
    save(tmp_path / "a {1} * other ?" / "model.ckpt", step=4)
    assert checkpoint_files.find_checkpoint(path) == path
    assert checkpoint_files.latest_checkpoint(os.path.dirname(path)) == path
    path = save(tmp_path / "a[1]" / "model.ckpt", step=3)
    assert_refused(path, "without these characters")
    with pytest.raises(CheckpointError, match="without these characters"):
        checkpoint_files.latest_checkpoint(str(tmp_path / "new[1]"))


@pytest.mark.parametrize("version", [tf.train.SaverDef.V1, tf.train.SaverDef.V2])
def test_every_truncation_is_found(tmp_path, version):
    path = save(tmp_path / "m.ckpt", version, keep_state=False)
    for name in os.listdir(tmp_path):
        whole = (tmp_path / name).read_bytes()
        lengths = {0, 1, len(whole) - 1, *range(0, len(whole), max(1, len(whole) // 40))}
        for length in lengths:
            (tmp_path / name).write_bytes(whole[:length])
            with pytest.raises(CheckpointError):
                checkpoint_files.find_checkpoint(path)
        (tmp_path / name).write_bytes(whole)
    assert checkpoint_files.find_checkpoint(path) == path


def test_shards_must_all_be_there_and_whole(tmp_path):
    path = save(tmp_path / "m.ckpt", shards=2)
    shards = sorted(tmp_path.glob("*.data-*"))
    assert [shard.name[-14:] for shard in shards] == ["00000-of-00002", "00001-of-00002"]
    assert checkpoint_files.find_checkpoint(path) == path
    for shard in shards:
        whole = shard.read_bytes()
        shard.write_bytes(whole[:-1])
        assert_refused(path, "cut short")
        shard.unlink()
        assert_refused(path, "only 1 of 2", "-of-00002")
        shard.write_bytes(whole)
        assert checkpoint_files.find_checkpoint(str(shard)) == path


def test_a_cut_checkpoint_that_holds_strings_is_found(tmp_path):
    path = save(tmp_path / "m.ckpt", extra=[("a_text", ["some", "words"])])
    assert checkpoint_files.find_checkpoint(path) == path
    data = tmp_path / "m.ckpt.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="cut short"):
        checkpoint_files.find_checkpoint(path)


def test_what_is_no_checkpoint_is_refused(tmp_path):
    save(tmp_path / "run" / "model.ckpt", step=5)
    (tmp_path / "notes.ckpt").write_text("not a checkpoint\n" * 99)
    (tmp_path / "w.tar.gz").write_bytes(b"\x1f\x8b" + bytes(99))
    (tmp_path / "empty").mkdir()
    assert_refused(tmp_path / "notes.ckpt", "cannot be read as a TensorFlow checkpoint")
    assert_refused(tmp_path / "w.tar.gz", "unpack it first")
    assert_refused(tmp_path / "empty", "*.index", "*.ckpt", "`checkpoint`")
    assert_refused(tmp_path / "run" / "model.ckpt-6", "did you mean", "model.ckpt-5?")
    assert_refused(tmp_path / "nowhere" / "model.ckpt", "no folder")
    assert_refused("", "empty")
    (tmp_path / "run" / "model.ckpt-5.index").unlink()
    assert_refused(tmp_path / "run" / "model.ckpt-5", "index")
    assert_refused(tmp_path / "run", "no complete checkpoint")


def test_no_train_dir_and_an_empty_one_have_no_checkpoint(tmp_path):
    assert checkpoint_files.latest_checkpoint(str(tmp_path / "nowhere")) is None
    assert checkpoint_files.latest_checkpoint(str(tmp_path)) is None


@pytest.fixture
def train_dir(tmp_path):
    for step in (9, 10, 100):
        save(tmp_path / "run" / "model.ckpt", step=step)
    return tmp_path / "run"


@pytest.mark.parametrize(
    "state",
    [
        None,
        b"",
        b"\x80\xff\x00garbage",
        b"model_checkpoint_path: ",
        b'model_checkpoint_path: "x-7"',
    ],
)
def test_the_highest_step_is_taken_without_a_good_state_file(train_dir, state):
    (train_dir / "checkpoint").unlink()
    if state is not None:
        (train_dir / "checkpoint").write_bytes(state)
    assert checkpoint_files.latest_checkpoint(str(train_dir)) == f"{train_dir}/model.ckpt-100"
    assert checkpoint_files.find_checkpoint(str(train_dir)) == f"{train_dir}/model.ckpt-100"


def test_the_state_file_chooses(train_dir, caplog):
    (train_dir / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-9"\n')
    assert checkpoint_files.latest_checkpoint(str(train_dir)) == f"{train_dir}/model.ckpt-9"
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_a_moved_folder_is_resumed_where_it_is(train_dir, tmp_path):
    shutil.copytree(train_dir, tmp_path / "copy")
    state = (train_dir / "checkpoint").read_text()
    (tmp_path / "copy" / "checkpoint").write_text(state.replace('"model', f'"{train_dir}/model'))
    found = checkpoint_files.latest_checkpoint(str(tmp_path / "copy"))
    assert found == f"{tmp_path}/copy/model.ckpt-100"


@pytest.mark.parametrize("damaged", [".index", ".data-00000-of-00001"])
@pytest.mark.parametrize("how", ["cut", "empty", "gone"])
def test_a_damaged_newest_checkpoint_is_passed_over(train_dir, caplog, damaged, how):
    file = train_dir / f"model.ckpt-100{damaged}"
    whole = file.read_bytes()
    file.unlink() if how == "gone" else file.write_bytes(whole[: len(whole) // 2 * (how == "cut")])
    assert checkpoint_files.latest_checkpoint(str(train_dir)) == f"{train_dir}/model.ckpt-10"
    assert "model.ckpt-100" in caplog.text and "WARNING" in caplog.text
    assert checkpoint_files.find_checkpoint(str(train_dir)) == f"{train_dir}/model.ckpt-10"
    for step in (9, 10):
        (train_dir / f"model.ckpt-{step}.index").write_bytes(b"")
    assert checkpoint_files.latest_checkpoint(str(train_dir)) is None


def test_the_global_step_is_read(train_dir):
    assert checkpoint_files.global_step_of(f"{train_dir}/model.ckpt-10") == 10
    with pytest.raises(CheckpointError):
        checkpoint_files.global_step_of(f"{train_dir}/model.ckpt-11")
