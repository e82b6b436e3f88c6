"""Half-precision logits of every network, and the program that writes docs/networks.md."""

import json

import numpy as np
import oracle
import pytest
from network_rows import rows

from benchmarks import network_graphs, network_runs, network_tables, networks_in_half
from nets.nets_factory import NETWORKS
from slim_mp.compat import slim, tf
from slim_mp.precision import arg_scope

QUICK = ("lenet", "cifarnet", "mobilenet_v1_025")
TOLERANCES = {"fp16": 2e-2, "bf16": 8e-2}
# Networks whose roundings do not add up so far, and what holds for them.
CLOSE = ("lenet", "cifarnet", "mobilenet_v1_025", "resnet_v1_50")
CLOSE_TOLERANCES = {"fp16": 3e-3, "bf16": 3e-2}


def _fits(name):
    return oracle.activation_absmax(name) < network_runs.FP16_ACTIVATIONS


@pytest.mark.parametrize("name", rows(QUICK, filter(_fits, NETWORKS)))
def test_half_logits_are_near_those_of_the_original(name):
    with network_runs.open_session() as session:
        evaluation = network_runs.Evaluation(session, name, TOLERANCES, oracle.size(name))
        logits = {precision: evaluation.logits(precision) for precision in TOLERANCES}

    tolerances = CLOSE_TOLERANCES if name in CLOSE else TOLERANCES
    for precision, tolerance in tolerances.items():
        error = network_runs.relative_error(logits[precision], oracle.logits(name))
        assert 1e-5 < error <= tolerance, "less would not have been computed in half"
    np.testing.assert_array_equal(logits["fp16"].argmax(1), oracle.top5(name)[:, 0])


def test_the_table_holds_what_was_measured_of_every_network():
    results = networks_in_half.read_results()
    text = network_tables.document(results, network_runs.FP16_ACTIVATIONS)
    assert networks_in_half.TABLES.read_text() == text
    assert list(results) == list(NETWORKS)
    for name, row in results.items():
        assert row["graph"]["as_published"]
        assert row["graph"]["variables"] == len(oracle.manifest(name)["variables"])
        assert row["graph"]["share_in_half"] == 1
        assert row["logits"]["fp32_error"] <= 5e-6
        assert network_tables.is_sound(row)
        assert row["logits"]["statistics"] == ("oracle" if _fits(name) else "images")
        if _fits(name):
            assert row["logits"]["fp16"]["difference"] <= TOLERANCES["fp16"]
            assert row["logits"]["bf16"]["difference"] <= TOLERANCES["bf16"]
            assert row["logits"]["fp16"]["top1"] == 1
        for precision in TOLERANCES:
            assert np.isfinite(row["logits"][precision]["difference"])


def test_one_network_is_measured_and_takes_its_place_in_the_table(tmp_path, monkeypatch):
    former = networks_in_half.read_results()["cifarnet"]
    monkeypatch.setattr(networks_in_half, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(networks_in_half, "TABLES", tmp_path / "networks.md")
    networks_in_half.write_results({"cifarnet": former})

    networks_in_half.main(["lenet"])

    results = json.loads((tmp_path / "results.json").read_text())
    assert list(results) == ["lenet", "cifarnet"]
    assert results["cifarnet"] == former
    convolutions = 28 * 28 * 32 * (5 * 5 * 1) + 14 * 14 * 64 * (5 * 5 * 32)
    products = 7 * 7 * 64 * 1024 + 1024 * 10
    assert results["lenet"]["graph"]["multiply_adds_an_image"] == convolutions + products
    text = (tmp_path / "networks.md").read_text()
    assert text.count("| lenet | ") == 3 and text.count("| cifarnet | ") == 3
    assert "published checkpoint in 2 of 2" in text
    assert "LRN 2" in text


def test_an_unknown_network_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        networks_in_half.main(["lenet", "nonet"])
    assert "no network is called nonet" in capsys.readouterr().err


def _operations_of_a_step(build):
    with tf.Graph().as_default() as graph:
        loss = tf.reduce_sum(build())
        tf.gradients(loss, tf.trainable_variables())
        return graph.get_operations()


def test_multiply_adds_of_a_convolution_and_of_its_gradients():
    def build():
        images = tf.zeros([2, 9, 9, 3])
        net = slim.conv2d(images, 5, [3, 4], stride=2, padding="SAME", normalizer_fn=None)
        return slim.conv2d(net, 7, 1, normalizer_fn=None)

    counts = [network_graphs.multiply_adds(op) for op in _operations_of_a_step(build)]
    first, second = 2 * 5 * 5 * 5 * (3 * 4 * 3), 2 * 5 * 5 * 7 * 5
    # Forward, the gradient of the kernel, and that of the input.
    assert sorted(filter(None, counts)) == sorted([first] * 3 + [second] * 3)


def test_multiply_adds_of_depthwise_convolution_and_of_matrix_products():
    def build():
        net = tf.get_variable("images", [2, 8, 8, 6])
        net = slim.separable_conv2d(net, None, [3, 3], depth_multiplier=2, normalizer_fn=None)
        return slim.fully_connected(tf.reduce_mean(net, [1, 2]), 10)

    counts = [network_graphs.multiply_adds(op) for op in _operations_of_a_step(build)]
    depthwise, product = 2 * 8 * 8 * 12 * 9, 2 * 12 * 10
    assert sorted(filter(None, counts)) == sorted([depthwise] * 3 + [product] * 3)


def test_share_in_half_and_casts_of_a_network_with_a_layer_in_float32():
    with tf.Graph().as_default() as graph, arg_scope(tf.float16):
        images = tf.zeros([1, 4, 4, 2], tf.float16)
        net = slim.conv2d(images, 3, 1, biases_initializer=None)
        slim.conv2d(tf.cast(net, tf.float32), 1, 1, biases_initializer=None)
        operations = graph.get_operations()
    total, share = network_graphs.count_multiply_adds(operations)
    assert total == 16 * (2 * 3 + 3 * 1)
    assert share == pytest.approx(6 / 9)
    # That of the first layer's weights, and that of its output.
    assert network_graphs.count_casts(operations) == 2
    reasons = network_graphs.float32_operations(operations)
    assert reasons == {"other (Conv2D)": 1, "other (Relu)": 1}


def test_batch_statistics_are_those_of_the_images():
    images = np.random.default_rng(0).normal(3.0, 2.0, [4, 5, 5, 2]).astype(np.float32)
    with network_runs.open_session() as session:
        slim.batch_norm(tf.constant(images), is_training=True, scope="norm")
        statistics = network_graphs.batch_statistics()
        session.run(tf.global_variables_initializer())
        values = session.run(statistics)
    flat = images.reshape(-1, 2)
    assert values.keys() == {"norm/moving_mean", "norm/moving_variance"}
    np.testing.assert_allclose(values["norm/moving_mean"], flat.mean(0), rtol=1e-5)
    np.testing.assert_allclose(values["norm/moving_variance"], flat.var(0, ddof=1), rtol=1e-4)


def test_agreements_and_errors():
    expected = np.array([[9.0, 8, 7, 6, 5, 4, 3], [1, 2, 3, 4, 5, 6, 7]])
    got = np.array([[8.0, 9, 7, 6, 4, 5, 3], [1, 2, 3, 4, 5, 6, 7.9]])
    assert network_runs.top1_agreement(got, expected) == 0.5
    assert network_runs.top5_agreement(got, expected) == pytest.approx(0.9)
    assert network_runs.relative_error(got, expected) == pytest.approx(1 / 9)


def test_a_skipped_step_that_moved_a_weight_is_not_sound():
    step = {"loss": 1.0, "is_finite": True, "is_change": True, "is_applied": True}
    skipped = {**step, "is_change": False, "is_applied": False}

    def is_sound(*taken):
        return network_tables.is_sound({"steps": {"fp16": taken, "bf16": [step, step]}})

    assert is_sound(skipped, step, step)
    assert not is_sound({**skipped, "is_change": True}, step, step)
    assert not is_sound({**skipped, "is_finite": False}, step, step)
    assert not is_sound(step, {**step, "loss": float("nan")})
    assert not is_sound(skipped, step)
