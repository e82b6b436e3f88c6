"""Batch norm in a training run: frozen layers, another decay, and what is said about them."""

import numpy as np
import pytest
import tiny_runs
from fakes import tiny_arg_scope, tiny_network

import slim_mp
from nets import nets_factory
from slim_mp.compat import slim, tf
from slim_mp.errors import NumericsError
from slim_mp.training import batch_norm_layers, train_config

DTYPES = ["fp32", "fp16", "bf16"]
HEAD = "tiny/logits"


@pytest.fixture(autouse=True)
def log_everything(caplog):
    caplog.set_level("INFO")


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A folder of a run whose statistics are not those of a fresh network."""
    folder = tmp_path_factory.mktemp("start")
    tiny_runs.run(folder, max_number_of_steps=3)
    return folder


def fine_tune(folder, start, network_fn=None, **changes):
    """Five steps from the weights of a run; returns the variables and the metrics."""
    checkpoint = train_config.WarmStartConfig(str(start / "train"))
    settings = {"trainable_scopes": HEAD, "max_number_of_steps": 5, **changes}
    tiny_runs.run(folder, network_fn, warm_start=checkpoint, **settings)
    rows = tiny_runs.metrics(folder)
    for row in rows:
        del row["examples_per_second"]
    return tiny_runs.variables(folder), rows


@pytest.mark.parametrize("dtype", DTYPES)
def test_frozen_means_frozen(tmp_path, start, caplog, dtype):
    before = tiny_runs.variables(start)
    frozen, _ = fine_tune(tmp_path / "frozen", start, dtype=dtype, freeze_batch_norm=True)
    body = [n for n in before if n.startswith("tiny/") and not n.startswith(HEAD)]
    statistics = [name for name in body if "moving_" in name]
    assert len(statistics) == 4
    tiny_runs.assert_equal_bits(frozen, before, body)
    assert not np.array_equal(frozen[f"{HEAD}/weights"], before[f"{HEAD}/weights"])
    assert "2 layers outside the trainable scopes are frozen" in caplog.text
    caplog.clear()
    loose, _ = fine_tune(tmp_path / "loose", start, dtype=dtype)
    for name in statistics:
        assert not np.array_equal(loose[name], before[name])
    assert "2 layers outside the trainable scopes still change" in caplog.text
    assert "--freeze_batch_norm keeps them" in caplog.text


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("clones", [1, 2])
def test_a_frozen_layer_computes_as_in_evaluation(tmp_path, start, dtype, clones):

    def evaluating(images):
        with (
            slim.arg_scope(tiny_arg_scope()),
            slim_mp.arg_scope(slim_mp.get_precision(dtype).compute_dtype, float32_kernels=True),
        ):
            logits = tiny_network(images, tiny_runs.CLASSES, False, tf.AUTO_REUSE)
        return tf.cast(logits, tf.float32), {}

    changes = {"dtype": dtype, "clones": clones}
    expected = fine_tune(tmp_path / "expected", start, evaluating, **changes)
    actual = fine_tune(tmp_path / "actual", start, freeze_batch_norm=True, **changes)
    tiny_runs.assert_equal_bits(actual[0], expected[0])
    assert actual[1] == expected[1]
    training = fine_tune(tmp_path / "training", start, **changes)
    assert training[1][0]["loss"] != expected[1][0]["loss"]


def test_only_layers_that_no_scope_trains_are_frozen(tmp_path, start, caplog):
    before = tiny_runs.variables(start)
    for folder, scopes in (("layer", f"{HEAD},tiny/conv2"), ("part", "tiny/conv2/BatchNorm/beta")):
        caplog.clear()
        after, _ = fine_tune(
            tmp_path / folder, start, trainable_scopes=scopes, freeze_batch_norm=True
        )
        assert "1 layers outside the trainable scopes are frozen" in caplog.text
        changed = {n for n in before if "moving_" in n and not np.array_equal(after[n], before[n])}
        assert changed == {f"tiny/conv2/BatchNorm/moving_{n}" for n in ("mean", "variance")}


def test_nothing_to_freeze_is_said(tmp_path, start, caplog):
    fine_tune(tmp_path, start, trainable_scopes="tiny", freeze_batch_norm=True)
    [warning] = [r.getMessage() for r in caplog.records if "--freeze_batch_norm" in r.getMessage()]
    assert "no batch norm lies outside the scopes tiny; 2 layers change" in warning


@pytest.mark.parametrize("fused", [True, False])
def test_statistics_that_change_in_place_are_frozen_too(tmp_path, fused):
    def network_fn(images):
        in_place = {"updates_collections": None, "fused": fused, "decay": 0.5}
        with tf.variable_scope("tiny"), slim.arg_scope([slim.batch_norm], **in_place):
            net = slim.batch_norm(slim.conv2d(images, 4, 3, scope="conv1"))
            net = tf.reduce_mean(net, [1, 2])
            return slim.fully_connected(net, 3, activation_fn=None, scope="logits"), {}

    names = [f"tiny/BatchNorm/moving_{name}" for name in ("mean", "variance")]
    for freeze in (False, True):
        tiny_runs.run(
            tmp_path / str(freeze), network_fn, trainable_scopes=HEAD, freeze_batch_norm=freeze
        )
        after = tiny_runs.variables(tmp_path / str(freeze))
        is_fresh = [np.array_equal(after[n], np.full(4, i)) for i, n in enumerate(names)]
        assert is_fresh == [freeze, freeze]


def normalized(dtype, form, factor):
    """A network with one form of batch norm, whose images are multiplied by a factor."""

    def network_fn(images):
        compute_dtype = slim_mp.get_precision(dtype).compute_dtype
        images *= tf.cast(factor(), images.dtype)
        with tf.variable_scope("tiny"), slim_mp.arg_scope(compute_dtype, float32_kernels=True):
            # A rectifier may make zeros of what is not a number.
            net = slim.conv2d(images, 4, 3, activation_fn=None, scope="conv1")
            net = slim.batch_norm(net, decay=0.5, **form)
            net = tf.reduce_mean(net, [1, 2])
            net = slim.fully_connected(net, 3, activation_fn=None, scope="logits")
        return tf.cast(net, tf.float32), {}

    return network_fn


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize(
    "form",
    [
        {"fused": True, "updates_collections": None},
        {"fused": False, "updates_collections": None},
    ],
    ids=["fused", "unfused"],
)
def test_a_skipped_step_leaves_statistics_that_change_in_place_as_they_were(tmp_path, form, dtype):
    for last in (1, 2, 3):
        network_fn = normalized(dtype, form, tiny_runs.bad_steps(2))
        tiny_runs.run(tmp_path, network_fn, dtype=dtype, max_number_of_steps=last)
    first, skipped, last = (tiny_runs.variables(tmp_path, step) for step in (1, 2, 3))
    assert skipped["loss_scale/skipped_steps"] == 1
    names = [name for name in first if name.startswith("tiny/")]
    tiny_runs.assert_equal_bits(skipped, first, names)
    for name in (n for n in names if "moving_" in n):
        assert not np.array_equal(last[name], first[name])


@pytest.mark.parametrize("form", [{"zero_debias_moving_mean": True}, {"renorm": True}])
def test_statistics_beyond_the_guard_are_not_saved_when_they_are_spoilt(tmp_path, form):
    """These forms keep statistics of their own in the forward pass."""
    tiny_runs.run(tmp_path, normalized("fp32", form, tiny_runs.bad_steps(2)), max_number_of_steps=1)
    before = tiny_runs.variables(tmp_path)
    with pytest.raises(NumericsError, match=r"are not finite after step 2.*not saved"):
        tiny_runs.run(
            tmp_path, normalized("fp32", form, tiny_runs.bad_steps(2)), max_number_of_steps=2
        )
    tiny_runs.assert_equal_bits(tiny_runs.variables(tmp_path), before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_another_decay_is_that_of_all_layers(tmp_path, dtype):
    means = {}
    for decay in (None, 0.5):
        folder = tmp_path / str(decay)
        tiny_runs.run(folder, dtype=dtype, batch_norm_decay=decay, max_number_of_steps=1)
        means[decay] = tiny_runs.variables(folder)
    for layer in ("conv1", "conv2"):
        name = f"tiny/{layer}/BatchNorm/moving_mean"
        # The network's own decay is 0.9.
        np.testing.assert_allclose(means[0.5][name], 5 * means[None][name], rtol=1e-5)


def warning_of(caplog, steps, **decays):
    caplog.clear()
    batch_norm_layers.Layers(decays=decays).warn_if_behind(steps)
    return caplog.text


def test_a_run_too_short_for_its_statistics_is_warned_of(caplog):
    text = warning_of(caplog, 1000, one=0.99, two=0.9997)
    for part in ("1000 steps", "decay 0.9997", "26 %", "9985 steps", "--batch_norm_decay=0.997"):
        assert part in text
    assert "80 %" in warning_of(caplog, 3, one=0.58)
    assert warning_of(caplog, 28, one=0.9)
    assert not warning_of(caplog, 29, one=0.9)
    assert not warning_of(caplog, 1, one=0.0)
    assert not warning_of(caplog, 10)
    assert not warning_of(caplog, 0, one=0.9)


def test_the_warning_counts_the_steps_of_all_runs(tmp_path, caplog):
    tiny_runs.run(tmp_path, max_number_of_steps=3)
    assert "after 3 steps with decay 0.9" in caplog.text
    assert "have seen 27 % of the true mean" in caplog.text
    caplog.clear()
    tiny_runs.run(tmp_path, max_number_of_steps=29)
    assert "true mean" not in caplog.text
    tiny_runs.run(tmp_path / "no norm", tiny_runs.network(norm=False))
    assert "true mean" not in caplog.text


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("name", ["resnet_v2_50", "mobilenet_v3_small", "inception_v1"])
def test_the_graph_has_the_names_it_has_without(tmp_path, name, dtype):
    def names(is_controlled):
        with tf.Graph().as_default() as graph:
            network_fn = nets_factory.get_network_fn(name, 10, is_training=True, precision=dtype)
            images = tf.zeros([1, 224, 224, 3])
            if is_controlled:
                config = tiny_runs.config(tmp_path)
                with batch_norm_layers.controlled(config) as layers:
                    network_fn(images)
            else:
                layers = None
                network_fn(images)
            return {operation.name for operation in graph.get_operations()}, layers

    expected, _ = names(False)
    actual, layers = names(True)
    assert actual == expected
    statistics = {n.rpartition("/")[0] for n in expected if n.endswith("/moving_mean")}
    assert layers.decays.keys() == statistics


def test_layers_without_a_name_are_told_apart(tmp_path):
    def network_fn(images):
        with tf.variable_scope("tiny"):
            net = tf.reduce_mean(slim.batch_norm(slim.batch_norm(images)), [1, 2])
            return slim.fully_connected(net, 3, activation_fn=None, scope="logits"), {}

    tiny_runs.run(
        tmp_path,
        network_fn,
        clones=2,
        trainable_scopes=f"{HEAD},tiny/BatchNorm_1",
        freeze_batch_norm=True,
    )
    after = tiny_runs.variables(tmp_path)
    assert not after["tiny/BatchNorm/moving_mean"].any()
    assert after["tiny/BatchNorm_1/moving_mean"].any()
