"""The report of precision: its verdicts, its files, and the program on real digits."""

import base64
import html.parser
import io
import os
import pathlib
import re
import subprocess
import sys
import types

import numpy as np
import pytest
import tiny_runs
from PIL import Image

from slim_mp import distribution
from slim_mp.errors import NumericsError, UsageError
from slim_mp.exponents import LayerExponents, Product
from slim_mp.figures import report_figure
from slim_mp.flags import report_flags
from slim_mp.number_range import RANGES, Exponents
from slim_mp.precision_report import write_report
from slim_mp.report import measurement, report_findings, report_page, report_plot

ROOT = pathlib.Path(__file__).resolve().parent.parent
needs_matplotlib = pytest.mark.skipif(
    not report_figure.is_available(), reason="matplotlib, of the extra plot, is not installed"
)


def measured(activations=(1.0, 0.5), gradients=(1e-3, 1e-5), products=(), batch_size=8):
    """A measurement of two layers, the second half as large as the first."""
    layers = {
        name: LayerExponents(
            Exponents.of(np.multiply(activations, factor)),
            Exponents.of(np.multiply(gradients, factor)),
            Exponents.of([0.0]),
        )
        for name, factor in (("net/first", 1.0), ("net/second", 0.5))
    }
    what = {"network": "net", "weights": "a <b> & c", "images": "2 batches of 8 from digits"}
    return measurement.Measurement(layers, {"net/first": list(products)}, 1.5, what, batch_size)


def find(dtype="fp16", **values):
    return report_findings.find(measured(**values), RANGES[dtype])


def test_the_verdict_follows_from_the_largest_activation_and_what_a_scale_saves():
    safe = find(gradients=[1.0, 2.0**-23.5])
    assert safe.verdict == report_findings.SAFE
    assert safe.flags == "--dtype=fp16 --loss_scale=4096"
    assert "safe for net with a loss scale of 4096" in safe.headline
    assert safe.lost(scaled=False) == 0.25
    assert safe.lost(scaled=True) == safe.overflowing(scaled=True) == 0
    overflow = find(activations=[70000.0, 1.0])
    assert overflow.verdict == report_findings.UNSAFE
    assert overflow.flags == "--dtype=bf16"
    assert "an activation in net/first is 70,000" in overflow.reasons[0]
    close = find(activations=[40000.0])
    assert close.verdict == report_findings.CAUTION
    assert "come close to overflow" in close.headline
    # Two gradients so far apart that no scale holds both.
    wide = find(gradients=[1000.0, 1e-12])
    assert wide.verdict == report_findings.CAUTION
    assert "50 % of the gradient is lost even with a loss scale of 8" in wide.headline
    assert "So few" not in wide.reasons[1]


def test_little_lost_unscaled_and_no_gradient_at_all_are_said_so():
    assert "hardly needs its loss scale" in find(gradients=[1.0, 0.5]).headline
    nothing = find(gradients=[0.0])
    assert nothing.verdict == report_findings.UNSAFE
    assert "every gradient is zero" in nothing.headline
    assert "every gradient is zero" in report_page.write_text(nothing)


def test_bfloat16_has_the_range_of_float32():
    found = find("bf16", activations=[70000.0], gradients=[1e-20])
    assert found.verdict == report_findings.SAFE
    assert found.flags == "--dtype=bf16"
    assert found.lost(scaled=False) == 0
    assert "and needs no loss scale" in found.headline
    assert "8 significant bits" in found.reasons[1]


def test_channels_and_batches_that_leave_tensor_cores_idle_are_named():
    products = [
        Product("Conv2D", 3, 32),
        Product("Conv2D", 64, 128),
        Product("DepthwiseConv2dNative", 33, 33),
        Product("MatMul", 12, 1001),
    ]
    found = find(products=products, batch_size=30)
    assert found.idle == (
        "net/first: 3 channels in, not a multiple of 8.",
        "net/first: 12 channels in and 1001 channels out, not a multiple of 8.",
        "Depthwise, which no tensor core computes: 1 of 4 layers.",
        "The batch has 30 images, not a multiple of 8.",
    )
    assert find(products=products[1:2]).idle == ()


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (1e-6, "< 0.01 %"), (0.00123, "0.12 %"), (0.314, "31 %"), (0.999, "100 %")],
)
def test_shares_for_people(share, text):
    assert report_findings.percent(share) == text


def tiny_measurement(folder, network_fn=None, batches=2):
    config = measurement.MeasurementConfig(
        tiny_runs.input_config(), distribution.local_clones(num_gpus=0), num_batches=batches
    )
    return measurement.measure(config, network_fn or tiny_runs.network(), tiny_runs.dataset(folder))


def test_measuring_is_repeatable_and_adds_batches_up(tmp_path):
    one, same = (tiny_measurement(tmp_path, batches=1) for _ in range(2))
    two = tiny_measurement(tmp_path, batches=2)
    assert list(one.exponents) == ["tiny/conv1", "tiny/conv2", "tiny/logits"]
    for name, layer in one.exponents.items():
        np.testing.assert_array_equal(
            layer.all_gradients.counts, same.exponents[name].all_gradients.counts
        )
        assert two.exponents[name].activations.total == 2 * layer.activations.total
        assert two.exponents[name].gradients.largest >= layer.gradients.largest
    assert two.products["tiny/logits"] == [Product("MatMul", 8, 3)]


def test_a_loss_that_is_not_finite_in_float32_is_an_error(tmp_path):
    with pytest.raises(NumericsError, match="loss of batch 1 is nan in float32 already"):
        tiny_measurement(tmp_path, tiny_runs.network(loss_factor=lambda: np.float32(np.nan)))


def test_the_text_has_the_verdict_every_layer_and_both_shares(tmp_path):
    text = report_page.write_text(find(gradients=[1.0, 2.0**-23.5]))
    lines = text.splitlines()
    assert lines[0] == "fp16 is safe for net with a loss scale of 4096."
    assert lines[1] == "Train with --dtype=fp16 --loss_scale=4096"
    rows = {line.split("  ")[0]: line.split() for line in lines if "%" in line}
    assert rows["gradients, unscaled"][-4:] == ["25", "%", "0", "%"]
    assert rows["net/second"][1:3] == ["0.5", "131,008"]
    assert "Closest to overflow: forwards net/first (65,504 times below)" in text
    assert "The batch" not in text


class Page(html.parser.HTMLParser):
    """The addresses, tags and words of a page."""

    def __init__(self, text):
        super().__init__()
        self.sources, self.tags, self.words = [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.sources += [value for name, value in attrs if name in ("src", "href", "srcset")]

    def handle_data(self, data):
        self.words.append(data)


@needs_matplotlib
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_the_picture_is_not_blank_and_the_page_needs_nothing_else(tmp_path, dtype):
    found = report_findings.find(tiny_measurement(tmp_path / "data"), RANGES[dtype])
    paths = write_report(found, str(tmp_path))
    assert [os.path.basename(path) for path in paths] == ["report.txt", "report.png", "report.html"]
    picture = np.asarray(Image.open(tmp_path / "report.png").convert("RGB")).astype(int)
    height, width, _ = picture.shape
    assert width > 1000
    assert height > 600
    for colour in (report_plot.COLOURS[found.verdict], report_plot.SCALED, report_plot.FORWARD):
        rgb = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
        close = np.abs(picture - rgb).max(axis=2) < 60
        assert close.sum() > 200, colour
    text = (tmp_path / "report.html").read_text()
    page = Page(text)
    assert page.tags.isdisjoint({"script", "link", "iframe"})
    assert "url(" not in text
    assert "@import" not in text
    (source,) = page.sources
    image = base64.b64decode(source.removeprefix("data:image/png;base64,"), validate=True)
    Image.open(io.BytesIO(image)).verify()
    assert found.headline in page.words


@needs_matplotlib
def test_markup_in_names_is_text_in_the_page():
    found = find()
    page = Page(report_page.write_page(found, b""))
    assert "b" not in page.tags
    assert any("a <b> & c" in words for words in page.words)


@needs_matplotlib
@pytest.mark.parametrize(
    "values",
    [
        {"gradients": [0.0]},
        {"activations": [0.0]},
        {"activations": [1e30], "gradients": [1e-30]},
        {"gradients": [np.inf, 1.0]},
    ],
)
def test_odd_values_can_be_drawn_and_written(values):
    found = find(**values)
    assert report_plot.draw(found).startswith(b"\x89PNG")
    assert found.headline in report_page.write_text(found)
    assert report_page.write_page(found, b"").count("<table>") == 2


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="--output_dir="):
        write_report(find(), str(tmp_path / "missing"))


def test_the_program_reports_on_lenet_and_the_digits(tmp_path):
    program = [sys.executable, "-W", "ignore", "-m", "slim_mp.precision_report"]
    arguments = ["--model_name=lenet", "--num_batches=1", "--batch_size=8"]
    result = subprocess.run(
        [*program, *arguments, f"--output_dir={tmp_path}"], capture_output=True, text=True, cwd=ROOT
    )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "report.txt").read_text() in result.stdout
    assert not re.search(r"^I\d{4} .*\.py:\d+\]", result.stderr, re.MULTILINE)
    scale = int(re.search(r"--dtype=fp16 --loss_scale=(\d+)", result.stdout).group(1))
    assert scale & (scale - 1) == 0
    for layer in ("conv1", "conv2", "fc3", "fc4"):
        assert f"LeNet/{layer} " in result.stdout
    assert "LeNet/fc4: 10 channels out" in result.stdout


def test_the_program_wants_a_network_or_a_checkpoint(monkeypatch):
    given = types.SimpleNamespace(model_name=None, checkpoint_path=None)
    monkeypatch.setattr(report_flags, "FLAGS", given)
    with pytest.raises(UsageError, match="Name a network with --model_name"):
        report_flags.report_request()
