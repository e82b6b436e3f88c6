"""The benchmark of the input runs and prints its rows; its figures are not looked at."""

import os
import re

import numpy as np
import pytest

from benchmarks import input_pipelines, input_speed
from slim_mp.compat import tf


def test_the_benchmark_prints_a_row_for_each_pipeline(monkeypatch, capsys):
    cores = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, core: cores.append(core))
    input_speed.main(["--rounds=1", "--images=2", "--batch_size=2", "--peers=torchvision"])
    out = capsys.readouterr().out
    assert cores == [{0}]
    assert re.match(r"8 JPEG files of 500x375, \d+ kB on average, one core\n", out)
    for title in input_speed.TITLES.values():
        assert re.search(rf"^{title} +CPU ms +images/s +of limit$", out, re.MULTILINE)
    row = r" +\d+\.\d\d +\d+ +\d+%$"
    assert len(re.findall(rf"^{input_speed.LIMIT}{row}", out, re.MULTILINE)) == 4
    for label in ("ours, --distortion=full.*", "slim's order.*", "TensorFlow, all colours"):
        assert re.search(rf"^{label}{row}", out, re.MULTILINE)
    assert re.search(rf"^torchvision({row}| is left out: No module named)", out, re.MULTILINE)


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("style", ["inception", "vgg"])
def test_the_limit_decodes_the_crops_that_the_preprocessing_reads(style, is_training):
    windows = input_speed.draw_windows(style, is_training, 30)
    top, left, height, width = windows.T
    assert (windows[:, :2] >= 0).all() and (height > 0).all() and (width > 0).all()
    assert (top + height <= 375).all() and (left + width <= 500).all()
    assert len(np.unique(windows, axis=0)) == (30 if is_training else 1)


def test_the_pipelines_of_tensorflow_crop_as_the_project_does():
    encoded = input_speed.jpeg_files(50)[0]
    with tf.Graph().as_default(), tf.Session() as session:
        seed = tf.constant([0, 5], tf.int64)
        ours = input_pipelines.ours("inception", True, distortion="crop")(encoded, seed)
        theirs = input_pipelines.documented_crop(with_colours=False)(encoded, seed)
        whole = input_pipelines.documented(with_colours=False)(encoded, seed)
        ours, theirs, whole = session.run([ours, theirs, whole])
    np.testing.assert_allclose(theirs, whole, atol=0.1)
    # They may be mirrored and are half a pixel apart.
    difference = min(np.abs(ours - image).mean() for image in (whole, whole[:, ::-1]))
    assert difference < 0.1 < np.abs(ours - ours[::-1]).mean()
