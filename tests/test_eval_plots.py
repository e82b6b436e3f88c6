"""The pictures of an evaluation: drawn for any number of classes and any names, or refused."""

import collections
import sys

import numpy as np
import pytest
import table_runs
from PIL import Image
from test_metrics import made_answers, summed

from slim_mp.data.class_names import Classes
from slim_mp.errors import UsageError
from slim_mp.evaluation import confusion_plot, eval_plots, evaluate
from slim_mp.evaluation.confusion_plot import draw_confusion
from slim_mp.evaluation.evaluator import Evaluation
from slim_mp.evaluation.reliability_plot import draw_reliability
from slim_mp.figures import figure_fonts

pytest.importorskip("matplotlib")

# Letters that no font may have, mathematics that is none, and what a terminal must not see.
NAMES = ("Möwe", "猫", "$x_1$ and $", "a\tb\x1b[2J", "x" * 300, "עברית", "")


def evaluation(num_classes, count=300, names=None, offset=0, broken=0):
    random = np.random.RandomState(0)
    labels = random.randint(0, num_classes, count)
    logits = random.normal(size=(count, num_classes)) + 4 * np.eye(num_classes)[labels]
    logits[:broken, 0] = np.nan
    classes = Classes(num_classes, offset, names)
    sums = summed(made_answers(logits, labels), 100, classes)
    metrics = {
        "dataset": "toy $set",
        "split": "test",
        "step": 3,
        "images_per_second": 9.0,
        **sums.figures(),
    }
    return Evaluation(metrics, sums, classes)


def texts_of(figure):
    return [text.get_text() for axes in figure.axes for text in axes.findobj(_is_text)]


def _is_text(artist):
    return hasattr(artist, "get_text") and bool(artist.get_text())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("num_classes", [2, 25, 26, 120, 1000])
def test_pictures_are_drawn_without_a_warning(tmp_path, num_classes):
    names = (NAMES * num_classes)[:num_classes]
    eval_plots.write_plots(str(tmp_path), evaluation(num_classes, names=names))
    for name in ("confusion_matrix.png", "reliability.png"):
        with Image.open(tmp_path / name) as picture:
            assert picture.format == "PNG"
            assert min(picture.size) > 500
            assert max(picture.size) < 3500
            assert len(picture.convert("L").getcolors()) > 10


def draw(result):
    return draw_confusion(result.sums.pairs, result.classes, "what")


def test_few_classes_have_their_counts_and_names():
    result = evaluation(3, names=("background", "daisy", "tulip", "rose"), offset=1, broken=5)
    texts = texts_of(draw(result))
    for count in result.sums.pairs.values():
        assert str(count) in texts
    assert {"daisy", "tulip", "rose", "no answer"} <= set(texts)
    assert "background" not in texts
    assert "no answer" not in texts_of(draw(evaluation(3)))


def test_the_matrix_has_rows_of_labels_and_columns_of_answers():
    pairs = collections.Counter({(0, 1): 3, (1, 1): 4, (2, -1): 5})
    matrix = confusion_plot._matrix(pairs, Classes(3))
    assert matrix.tolist() == [[0, 3, 0, 0], [0, 4, 0, 0], [0, 0, 0, 5]]


def test_the_heat_map_of_many_classes_loses_no_count():
    pairs = collections.Counter({(0, 999): 3, (998, 998): 4, (5, -1): 5, (4, 5): 1})
    counts = confusion_plot._block_counts(pairs, 1000, 3)
    assert counts.shape == (334, 334)
    assert counts.sum() == 8
    assert (counts[0, 333], counts[332, 332], counts[1, 1]) == (3, 4, 1)


def test_what_is_confused_most_often_is_listed_where_there_are_many_classes():
    pairs = collections.Counter({(7, 8): 30, (3, 2): 40, (1, 1): 99})
    names = tuple(f"name{n}" for n in range(50))
    [listed] = [
        text for text in texts_of(draw_confusion(pairs, Classes(50, 0, names), "")) if "→" in text
    ]
    assert [line.split() for line in listed.splitlines()[2:]] == [
        ["40", "name3", "→", "name2"],
        ["30", "name7", "→", "name8"],
    ]


def test_a_name_that_no_font_has_gives_way_to_its_label():
    assert figure_fonts.families_for(["Möwe", "кошка"]) == (["DejaVu Sans"], set())
    # A number that stands for no character.
    _, missing = figure_fonts.families_for(["a\u0378"])
    assert missing == {"\u0378"}
    texts = texts_of(draw(evaluation(3, names=("a\u0378", "b", "c"))))
    assert {"0", "b", "c"} <= set(texts)


def test_a_long_name_is_cut():
    texts = texts_of(draw(evaluation(3, names=("x" * 60, "b", "c"))))
    assert "x" * 27 + "…" in texts


def test_the_reliability_says_its_error_and_which_bins_it_has():
    result = evaluation(4)
    figure = draw_reliability(result.sums.reliability, "toy")
    error = result.sums.reliability.error()
    assert f"expected calibration error {error:.2%}" in texts_of(figure)
    assert error > 0.01


def test_an_evaluation_writes_them_where_asked(tmp_path):
    config = table_runs.config(tmp_path, outputs={"plots": True})
    dataset = table_runs.numbered_dataset(tmp_path / "data")
    evaluate.evaluate(config, table_runs.network(table_runs.table()), dataset)
    assert {"confusion_matrix.png", "reliability.png"} <= {
        p.name for p in (tmp_path / "eval").iterdir()
    }


def test_without_matplotlib_they_are_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    config = table_runs.config(tmp_path, "none", {"plots": True})
    with pytest.raises(UsageError, match="--plots needs matplotlib"):
        evaluate.evaluate(config, None, None)
