"""The scale that a run with --loss_scale=auto begins with, and reports of vanished gradients."""

import fakes
import numpy as np
import pytest
import tiny_runs

from slim_mp.compat import tf
from slim_mp.number_range import RANGES
from slim_mp.recommended_scale import HEADROOM
from slim_mp.training import optimizers, train_graph
from slim_mp.training.train_config import LossScaleConfig

AUTO = LossScaleConfig(auto=True)


def largest_gradient(folder):
    """Of the first two batches of a run in float32, by differentiating its graph here."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        config = tiny_runs.config(folder, "fp32")
        graph = train_graph.build_graph(
            config, tiny_runs.network("fp32"), tiny_runs.dataset(folder)
        )
        loss = graph.replay.loss
        names = ["tiny/conv1/Conv2D", "tiny/conv1/Relu", "tiny/conv2/Conv2D", "tiny/conv2/Relu"]
        names += ["tiny/logits/BiasAdd", "tiny/conv2/BatchNorm/FusedBatchNormV3"]
        names += ["tiny/conv1/BatchNorm/FusedBatchNormV3", "tiny/logits/MatMul"]
        sources = [tf.get_default_graph().get_tensor_by_name(f"{name}:0") for name in names]
        sources += [v for v in tf.trainable_variables() if "BatchNorm" not in v.op.name]
        largest = [tf.reduce_max(tf.abs(value)) for value in tf.gradients(loss, sources)]
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            session.run(graph.input_initializer)
            return max(max(session.run(largest)) for _ in range(2))


@pytest.mark.parametrize("factor", [2.0**-8, 2.0**12])
def test_the_scale_keeps_the_largest_gradient_below_overflow_and_training_goes_on(
    tmp_path, caplog, factor
):
    caplog.set_level("INFO")
    network = tiny_runs.network("fp16", gradient_factor=lambda: tf.constant(factor))
    tiny_runs.run(
        tmp_path,
        network,
        dtype="fp16",
        loss_scale=LossScaleConfig(auto=True, minimum=2.0**-20),
        learning_rate=optimizers.LearningRateConfig(1e-6, "fixed"),
    )
    rows = tiny_runs.metrics(tmp_path)
    scale = rows[0]["loss_scale"]
    assert scale == 2.0 ** round(np.log2(scale))
    largest = largest_gradient(tmp_path / "float32") * factor * scale
    # Half may round the largest gradient over the edge.
    limit = RANGES["fp16"].largest / HEADROOM
    assert limit / 2 * 0.99 <= largest <= limit * 1.01
    assert rows[-1]["applied_steps"] == 3
    lines = [line for line in caplog.messages if line.startswith("Loss scale auto")]
    assert len(lines) == 1
    assert f"starting with {scale:.15g}, since the largest gradient, " in lines[0]


def test_the_measurement_takes_no_batch_away_from_training(tmp_path):
    for name, loss_scale in (("auto", AUTO), ("fixed", LossScaleConfig(fixed=1.0))):
        tiny_runs.run(tmp_path / name, loss_scale=loss_scale, examples=24)
    # In float32 auto chooses 1.
    auto, fixed = (tiny_runs.variables(tmp_path / name) for name in ("auto", "fixed"))
    tiny_runs.assert_equal_bits(auto, fixed, fixed.keys())


def test_a_resumed_run_goes_on_with_the_saved_scale(tmp_path, caplog):
    caplog.set_level("INFO")
    rule = LossScaleConfig(auto=True, incr_every_n_steps=1)
    for last in (2, 3):
        tiny_runs.run(tmp_path, dtype="fp16", loss_scale=rule, max_number_of_steps=last)
    first, second, third = (row["loss_scale"] for row in tiny_runs.metrics(tmp_path))
    assert (second, third) == (2 * first, 4 * first)
    assert caplog.text.count("Loss scale auto") == 1


def test_a_run_with_a_fixed_scale_is_measured_when_it_goes_on_with_auto(tmp_path, caplog):
    caplog.set_level("INFO")
    tiny_runs.run(tmp_path, dtype="fp16", max_number_of_steps=1)
    tiny_runs.run(tmp_path, dtype="fp16", loss_scale=AUTO, max_number_of_steps=2)
    assert caplog.text.count("Loss scale auto: starting with") == 1
    assert tiny_runs.metrics(tmp_path)[1]["loss_scale"] > 1


def test_a_forward_pass_that_is_not_finite_is_said_and_keeps_the_initial_scale(tmp_path, caplog):
    def network_fn(images):
        return tiny_runs.network("fp16")(images * np.inf)

    tiny_runs.run(tmp_path, network_fn, dtype="fp16", loss_scale=AUTO, max_number_of_steps=1)
    assert "not finite with any scale that was tried; starting with 32768" in caplog.text
    assert tiny_runs.metrics(tmp_path)[0]["loss_scale"] == 32768


def zero_shares(folder, dtype, scale, factor=1.0, **changes):
    network = tiny_runs.network(dtype, gradient_factor=lambda: tf.constant(factor))
    tiny_runs.run(
        folder,
        network,
        dtype=dtype,
        loss_scale=LossScaleConfig(fixed=scale),
        gradient_report_every_n_steps=2,
        log_every_n_steps=100,
        max_number_of_steps=4,
        **changes,
    )
    rows = tiny_runs.metrics(folder)
    assert [row["step"] for row in rows] == [1, 2, 4]
    assert "zero_in_half" not in rows[0]
    return rows[1]["zero_in_half"]


def test_layers_whose_gradients_vanish_are_reported_in_half_and_in_float32(tmp_path):
    shares = {}
    for dtype in ("fp16", "fp32"):
        good = zero_shares(tmp_path / dtype / "good", dtype, 2.0**33, factor=2.0**-23)
        lost = zero_shares(tmp_path / dtype / "lost", dtype, 1.0, factor=2.0**-23)
        some = zero_shares(tmp_path / dtype / "some", dtype, 1.0, factor=2.0**-18)
        assert list(good) == ["tiny/conv1", "tiny/conv2", "tiny/logits"]
        assert max(good.values()) < 0.5
        assert lost["tiny/conv1"] == lost["tiny/conv2"] == 1.0
        assert good["tiny/conv1"] < some["tiny/conv1"] < 1.0
        shares[dtype] = some
    for name, share in shares["fp32"].items():
        assert shares["fp16"][name] == pytest.approx(share, abs=0.2)


def test_only_layers_that_are_trained_are_reported_and_measured(tmp_path):
    shares = zero_shares(tmp_path, "fp16", 8.0, trainable_scopes="tiny/conv2/BatchNorm")
    assert list(shares) == ["tiny/conv2", "tiny/logits"]


def test_shares_are_scalars_in_the_event_file_and_change_no_weight(tmp_path):
    zero_shares(tmp_path / "with", "fp16", 8.0, save_summaries_secs=600)
    tags = {}
    for path in (tmp_path / "with" / "train").glob("events*"):
        for event in tf.train.summary_iterator(str(path)):
            for value in event.summary.value:
                tags.setdefault(value.tag, []).append(event.step)
    assert tags["zero_in_half/tiny/conv1"] == [2, 4]
    tiny_runs.run(
        tmp_path / "without",
        dtype="fp16",
        loss_scale=LossScaleConfig(fixed=8.0),
        max_number_of_steps=4,
    )
    tiny_runs.assert_equal_bits(
        tiny_runs.variables(tmp_path / "with"), tiny_runs.variables(tmp_path / "without")
    )


def test_nothing_is_built_when_no_report_is_asked_for(tmp_path):
    sizes = []
    for every in (0, 5):
        with fakes.fresh_graph() as graph:
            config = tiny_runs.config(tmp_path, gradient_report_every_n_steps=every)
            built = train_graph.build_graph(
                config, tiny_runs.network(), tiny_runs.dataset(tmp_path)
            )
            sizes.append(len(graph.get_operations()))
            has_meter = built.meter is not None
            assert has_meter == bool(every)
            assert not every or any("exponents" in op.name for op in graph.get_operations())
    assert sizes[0] < sizes[1]
