"""Figures against the shortest way in numpy, whatever the batches; and how they are shown."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slim_mp.data.class_names import Classes
from slim_mp.evaluation.calibration import BINS, Reliability
from slim_mp.evaluation.metrics import NO_ANSWER, Sums, describe, describe_classes


def made_answers(logits, labels):
    """What the graph of an evaluation says, in numpy."""
    with np.errstate(invalid="ignore"):
        shifted = logits - logits.max(axis=1, keepdims=True)
        log_probabilities = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    best = np.argsort(-logits, axis=1, kind="stable")[:, :5]
    return {
        "labels": labels,
        "loss": -log_probabilities[np.arange(len(labels)), labels],
        "best": best,
        "log_probability": np.take_along_axis(log_probabilities, best, axis=1),
        "is_finite": np.isfinite(logits).all(axis=1),
    }


def summed(answers, batch_size, classes):
    sums = Sums(classes)
    for begin in range(0, len(answers["labels"]), batch_size):
        batch = {name: value[begin : begin + batch_size] for name, value in answers.items()}
        sums.add(batch)
    return sums


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**20),
    count=st.integers(1, 60),
    num_classes=st.integers(2, 9),
    batch_size=st.integers(1, 70),
    broken=st.integers(0, 5),
)
def test_figures_are_those_of_numpy_and_do_not_depend_on_batches(
    seed, count, num_classes, batch_size, broken
):
    random = np.random.RandomState(seed)
    logits = random.normal(size=(count, num_classes)) * 3
    logits[:broken, 0] = np.nan
    labels = random.randint(0, num_classes, count)
    answers = made_answers(logits, labels)
    figures = summed(answers, batch_size, Classes(num_classes)).figures()
    # Equal, not close; a loss that is no number aside.
    whole = summed(answers, count, Classes(num_classes)).figures()
    np.testing.assert_equal(figures, whole)

    answered = answers["is_finite"]
    chosen = np.where(answered, answers["best"][:, 0], -1)
    assert figures["num_examples"] == count
    assert figures["no_answer"] == (~answered).sum()
    assert figures["top1"] == (chosen == labels).mean()
    assert ("top5" in figures) == (num_classes >= 5)
    if num_classes >= 5:
        among = (answers["best"] == labels[:, None]).any(axis=1) & answered
        assert figures["top5"] == among.mean()
    np.testing.assert_allclose(figures["loss"], answers["loss"].mean(), rtol=1e-12)
    for index, row in enumerate(figures["per_class"]):
        right = ((chosen == labels) & (labels == index)).sum()
        counts = ((labels == index).sum(), (chosen == index).sum(), right)
        assert (row["num_examples"], row["num_chosen"], row["num_correct"]) == counts
        assert row["recall"] == (right / counts[0] if counts[0] else None)
        assert row["precision"] == (right / counts[1] if counts[1] else None)


def test_the_pairs_are_the_confusion_matrix():
    answers = made_answers(np.eye(4)[[0, 0, 1, 3, 3]] * 9, np.array([0, 1, 1, 3, 2]))
    answers["is_finite"][4] = False
    sums = summed(answers, 2, Classes(4))
    assert sums.pairs == {(0, 0): 1, (1, 0): 1, (1, 1): 1, (3, 3): 1, (2, NO_ANSWER): 1}


def test_the_calibration_error_is_the_mean_gap_of_the_bins():
    reliability = Reliability()
    # Four answers of 0.9, three right; one of 0.55, wrong.
    reliability.add(np.array([0.9, 0.9, 0.9]), np.array([True, True, True]))
    reliability.add(np.array([0.9, 0.55]), np.array([False, False]))
    assert reliability.error() == pytest.approx(4 / 5 * 0.15 + 1 / 5 * 0.55)
    assert reliability.counts.sum() == 5
    assert Reliability().error() is None


@pytest.mark.parametrize("confidence", [1.0, 1 / BINS, 1 / BINS + 1e-12, 0.2, 1e-9, 0.0])
def test_a_bin_holds_what_is_above_its_lower_end_up_to_its_upper_end(confidence):
    reliability = Reliability()
    reliability.add(np.array([confidence]), np.array([True]))
    [index] = np.flatnonzero(reliability.counts)
    assert index / BINS < confidence <= (index + 1) / BINS or confidence == index == 0.0


def test_a_calibrated_network_has_hardly_any_error():
    random = np.random.RandomState(0)
    confidences = random.uniform(0.1, 1.0, 200_000)
    reliability = Reliability()
    reliability.add(confidences, random.uniform(size=200_000) < confidences)
    assert reliability.error() < 0.01
    overconfident = Reliability()
    overconfident.add(np.sqrt(confidences), random.uniform(size=200_000) < confidences)
    assert overconfident.error() > 0.1


def test_the_line_for_people_has_all_of_it():
    values = {"num_examples": 50, "top1": 0.5, "top5": 0.985, "loss": 1.25, "step": 7}
    expected = "50 images, top-1 50.00%, top-5 98.50%, loss 1.2500, step 7"
    assert describe({**values, "images_per_second": None}) == expected
    values = {**values, "step": None, "images_per_second": 1234.5}
    del values["top5"]
    assert describe(values) == "50 images, top-1 50.00%, loss 1.2500, 1234 images/s"


def table_of(classes, labels=(1, 1), logits=((0, 1), (0, 1))):
    answers = made_answers(np.array(logits, float), np.array(labels))
    return describe_classes(summed(answers, 9, classes).figures()["per_class"])


def test_the_table_of_classes_has_dashes_where_there_is_nothing_to_say():
    lines = table_of(Classes(2, offset=1, names=("nothing", "daisy", ""))).splitlines()
    assert lines[0].split() == ["precision", "recall", "images", "class"]
    # Labels of the dataset; a name of its own only where it says more.
    assert lines[1].split() == ["-", "-", "0", "1", "daisy"]
    assert lines[2].split() == ["100.00%", "100.00%", "2", "2"]
    assert table_of(Classes(2, names=("0", "1"))).splitlines()[1].split()[-1] == "0"


def test_a_name_in_the_table_does_a_terminal_no_harm():
    assert "\x1b" not in table_of(Classes(2, names=("\x1b[2J", "b")))


def test_many_classes_have_no_table():
    logits = np.zeros((1, 20))
    assert table_of(Classes(20), [0], logits).count("\n") == 20
    assert table_of(Classes(21), [0], np.zeros((1, 21))) is None
