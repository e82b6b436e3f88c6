"""python -m slim_mp.predict: the best classes of image files, from a checkpoint or an export."""

import json
import os
import shutil

import numpy as np
import programs
import pytest
import tiny_exports
from made_checkpoints import network_arrays, save

from nets import nets_factory
from slim_mp import preprocessing
from slim_mp.checkpoints import trained_with, warm_start
from slim_mp.compat import tf
from slim_mp.data.image_kinds import kind_of

PREDICT, EXPORT = "slim_mp.predict", "export_inference_graph"
NAMES = ("tulipán", "роза", "c d", "e", "f", "g", "薔薇")
SIZE = 32


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a training run with the names of its classes."""
    folder = tmp_path_factory.mktemp("run")
    save(folder / "model.ckpt-8", network_arrays("cifarnet", len(NAMES)))
    (folder / "graph.pb").write_bytes(b"a frozen graph")
    facts = trained_with.TrainedWith("cifarnet", len(NAMES), 0, "inception", SIZE, NAMES)
    trained_with.write(folder, facts)
    return folder


@pytest.fixture(scope="module")
def exported(run):
    """The folder of the versions of an export of it."""
    folder = run / "exports"
    code, out, err = programs.call(
        EXPORT, f"--checkpoint_path={run}", "--dtype=fp16", f"--export_dir={folder}"
    )
    assert code == 0, err
    assert out.startswith(f"{folder}/1: SavedModel in fp16, 3.7 MB; a logit differs ")
    return folder


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    return tiny_exports.write_photographs(tmp_path_factory.mktemp("Фото album"))


def probabilities(run, paths):
    """What the checkpoint answers, by the means of an evaluation."""
    with tf.Graph().as_default(), tf.Session() as session:
        images = [
            preprocessing.preprocess_encoded(
                "inception", tf.io.read_file(path), 3, SIZE, SIZE, is_training=False
            )
            for path in paths
        ]
        _, end_points = nets_factory.get_network_fn("cifarnet", len(NAMES))(tf.stack(images))
        plan = warm_start.plan_evaluation(str(run), tf.global_variables())
        warm_start.restore_fn(plan)(session)
        return session.run(end_points["Predictions"])


def predicted(*arguments):
    """Runs the program for JSON; returns the exit code, the rows, and stderr."""
    code, out, err = programs.call(PREDICT, *arguments, "--json")
    return code, [json.loads(line) for line in out.splitlines()], err


def test_a_run_and_its_export_answer_alike_and_in_order(run, exported, photographs):
    expected = probabilities(run, photographs)
    models = {run: 1e-5, run / "model.ckpt-8": 1e-5, exported: 0.02, exported / "1": 0.02}
    for batch_size, (model, tolerance) in zip((16, 3, 3, 1), models.items(), strict=True):
        code, rows, err = predicted(model, *photographs, f"--batch_size={batch_size}", "--top=7")
        assert (code, err) == (0, "")
        assert [row["file"] for row in rows] == photographs
        for row, answer in zip(rows, expected, strict=True):
            best = row["classes"]
            assert best[0]["number"] == answer.argmax()
            assert [item["name"] for item in best] == [NAMES[item["number"]] for item in best]
            assert sorted(item["number"] for item in best) == list(range(7))
            found = [item["probability"] for item in best]
            assert found == sorted(found, reverse=True)
            np.testing.assert_allclose(
                found, answer[[item["number"] for item in best]], atol=tolerance
            )


def test_the_text_has_the_best_classes_under_the_name_of_the_file(run, photographs):
    [answer] = probabilities(run, photographs[:1])
    code, out, err = programs.call(PREDICT, run, photographs[0], "--top=2")
    assert (code, err) == (0, "")
    file, *rows = out.splitlines()
    assert file == photographs[0]
    best = np.argsort(-answer)[:2]
    assert rows == [f"  {answer[k]:8.2%}  {k:5d}  {NAMES[k]}" for k in best]
    _, out, _ = programs.call(PREDICT, run, photographs[0])
    assert len(out.splitlines()) == 1 + 5


@pytest.fixture(scope="module")
def bad_files(tmp_path_factory):
    """Files that are no images, with what is to be said of each."""
    folder = tmp_path_factory.mktemp("bad")
    [cat] = [one for name, one in tiny_exports.photographs().items() if name.startswith("K")]
    contents = {
        "cut short.jpg": (cat[: len(cat) // 2], "cannot be decoded"),
        "empty.png": (b"", "is empty"),
        "text.jpg": ("Привет".encode(), "is no image"),
        "webp.jpg": (b"RIFF\0\0\0\0WEBPVP8 ", "WebP, which cannot be read"),
        "bell\a.png": (b"\x89PNG\r\n\x1a\n" + bytes(40), "cannot be decoded"),
    }
    for name, (content, _) in contents.items():
        (folder / name).write_bytes(content)
    said = {str(folder / name): said for name, (_, said) in contents.items()}
    return {
        **said,
        str(folder / "none.jpg"): "cannot be read: No such file",
        str(folder): "Is a dir",
    }


@pytest.mark.parametrize("of_export", [False, True])
def test_bad_files_are_named_and_do_not_stop_the_others(
    run, exported, photographs, bad_files, caplog, of_export
):
    mixed = [photographs[0], *bad_files, *photographs[1:]]
    code, rows, err = predicted(exported if of_export else run, *mixed)
    assert code == 3
    assert [row["file"] for row in rows] == mixed
    assert [row["file"] for row in rows if "classes" in row] == photographs
    for row in rows:
        assert bad_files.get(row["file"], "") in row.get("problem", "")
    assert f"{len(bad_files)} of {len(mixed)} files cannot be used: " in err
    assert err.count("\n") == 1
    assert "\a" not in err + caplog.text
    assert sum("cut short.jpg cannot be decoded" in line for line in caplog.messages) == 1


def test_all_files_may_be_bad(run, bad_files):
    code, out, err = programs.call(PREDICT, run, *bad_files)
    assert (code, out) == (3, "")
    assert err.startswith("slim_mp.predict")


def test_a_name_that_is_no_text_is_shown(run, tmp_path):
    path = os.path.join(os.fsencode(tmp_path), b"caf\xe9.png")
    with open(path, "wb") as file:
        file.write(tiny_exports.photographs()["grey.png"])
    code, out, err = programs.call(PREDICT, run, os.fsdecode(path))
    assert (code, err) == (0, "")
    assert "caf\\udce9.png" in out.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "Name a checkpoint or an export, and image files"),
        (["{run}"], 2, "Name a checkpoint or an export, and image files"),
        (["{run}", "x.jpg", "--top=0"], 2, "top"),
        (["{run}/exports/1", "x.jpg", "--image_size=8"], 2, "--image_size: for a checkpoint only"),
        (["{run}/exports", "x.jpg", "--dtype=bf16"], 2, "--dtype: for a checkpoint only"),
        (["{run}/exports/1/saved_model.pb", "x.jpg"], 3, "1 of 1 files cannot be used: x.jpg"),
        (["{run}/graph.pb", "x.jpg"], 2, "graph.pb takes pixels, not image files"),
        (["\udcff", "x.jpg"], 2, "\\udcff', which is not UTF-8"),
        (["{run}/none", "x.jpg"], 5, "No checkpoint at"),
        (["mobilenet_v22", "x.jpg"], 5, "Did you mean mobilenet_v2"),
        (["{run}", "x.jpg", "--model_name=lenet"], 5, "--model_name"),
    ],
)
def test_errors_are_one_line(run, exported, arguments, code, said):
    found, out, err = programs.call(PREDICT, *(text.format(run=run) for text in arguments))
    assert (found, out) == (code, "")
    assert said in err


def test_a_damaged_export_is_an_error(exported, photographs, tmp_path):
    damaged = tmp_path / "1"
    (damaged / "variables").mkdir(parents=True)
    content = (exported / "1" / "saved_model.pb").read_bytes()
    for text in (b"", b"nonsense", content[: len(content) // 2], content):
        (damaged / "saved_model.pb").write_bytes(text)
        code, out, err = programs.call(PREDICT, tmp_path, photographs[0])
        assert (code, out) == (5, "")
        assert "cannot be read as a SavedModel" in err
        assert err.count("\n") == 1


def test_of_a_run_with_exports_beside_its_checkpoints_the_checkpoint_is_meant(
    run, exported, photographs, tmp_path
):
    shutil.copytree(run, tmp_path, ignore=shutil.ignore_patterns("exports"), dirs_exist_ok=True)
    shutil.copytree(exported / "1", tmp_path / "1")
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-8"\n')
    code, _, err = programs.call(PREDICT, tmp_path, photographs[0], "--dtype=bf16")
    assert (code, err) == (0, "")


def test_another_saved_model_is_told_what_it_lacks(photographs, tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        number = tf.placeholder(tf.float32, [], name="number")
        tf.saved_model.simple_save(session, str(tmp_path / "1"), {"x": number}, {"y": number})
    code, _, err = programs.call(PREDICT, tmp_path, photographs[0])
    assert code == 5
    assert "without the signatures encoded and images" in err


def test_the_photographs_are_what_the_tests_take_them_for():
    kinds = {name: kind_of(encoded) for name, encoded in tiny_exports.photographs().items()}
    assert set(kinds.values()) == {"JPEG", "PNG"}
    assert any(not name.isascii() for name in kinds)
