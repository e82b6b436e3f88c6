"""Every network of the factory against the oracle: variables, losses, end points, logits."""

import numpy as np
import oracle
import pytest

from nets.nets_factory import NETWORKS, get_network_fn
from slim_mp.compat import tf
from slim_mp.precision import PRECISIONS


def _is_heavy(name):
    manifest = oracle.manifest(name)
    return len(manifest["variables"]) > 300 or manifest["num_params"] > 100e6


def _row(*arguments):
    return pytest.param(*arguments, marks=[pytest.mark.slow] if _is_heavy(arguments[0]) else [])


def _training_rows():
    """Each network in each precision; of those whose graphs take long in fp16 alone.

    At their least size all are built, and take two steps, in tests/test_networks_train.py.
    """
    return [
        _row(name, precision)
        for name in NETWORKS
        for precision in (["fp16"] if _is_heavy(name) else PRECISIONS)
    ]


def _build(name, is_training, precision="fp32", size=None, batch_size=2):
    """Builds a network as its published checkpoint has it; returns the logits and end points."""
    network_fn = get_network_fn(
        name,
        oracle.manifest(name)["num_classes"],
        weight_decay=1e-4,
        is_training=is_training,
        precision=precision,
        float32_kernels=True,
    )
    size = size or network_fn.default_image_size
    images = tf.placeholder(tf.float32, [batch_size, size, size, network_fn.channels], "images")
    return network_fn(images)


def _shapes(variables):
    return {variable.op.name: variable.shape.as_list() for variable in variables}


def _set_to_oracle(session, variables):
    # In one run: each set of fetches makes the session prune the whole graph again.
    values = {
        variable.initializer.inputs[1]: oracle.value(variable.op.name, variable.shape)
        for variable in variables
    }
    session.run([variable.initializer for variable in variables], values)


def test_every_row_is_known_to_the_oracle_by_its_published_facts():
    for name, row in NETWORKS.items():
        manifest = oracle.manifest(name)
        assert row.image_size == manifest["default_image_size"]
        first_weights = next(iter(manifest["variables"].values()))
        assert row.channels == first_weights[2]


@pytest.mark.parametrize(("name", "precision"), _training_rows())
def test_training_graph_has_the_published_parts(name, precision):
    manifest = oracle.manifest(name)
    with tf.Graph().as_default():
        logits, end_points = _build(name, is_training=True, precision=precision)

        assert _shapes(tf.model_variables()) == manifest["variables"]
        assert {variable.dtype for variable in tf.model_variables()} == {tf.float32}
        others = set(_shapes(tf.global_variables())) - set(manifest["variables"])
        assert others <= set(manifest["non_model_globals"])
        assert sorted(_shapes(tf.trainable_variables())) == sorted(manifest["trainable"])
        assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == manifest["num_update_ops"]
        losses = tf.losses.get_regularization_losses()
        assert len(losses) == manifest["num_regularization_losses"]
        assert {loss.dtype for loss in losses} == {tf.float32}

        assert end_points.keys() == {*manifest["end_points"], "Predictions"}
        assert ("AuxLogits" in end_points) == manifest["has_aux_logits"]
        heads = [logits, end_points["Predictions"], end_points.get("AuxLogits", logits)]
        for head in heads:
            assert head.dtype == tf.float32
            assert head.shape.as_list() == [2, manifest["num_classes"]]


@pytest.mark.parametrize("name", [_row(name) for name in NETWORKS])
def test_float32_logits_are_those_of_the_original(name):
    with tf.Graph().as_default(), tf.Session() as session:
        logits, end_points = _build(name, False, size=oracle.size(name))
        variables = tf.model_variables()
        _set_to_oracle(session, variables)
        images = oracle.images(oracle.size(name), NETWORKS[name].channels)
        got, probabilities = session.run([logits, end_points["Predictions"]], {"images:0": images})

    manifest = oracle.manifest(name)
    missing = set(manifest["variables"]) - set(_shapes(variables))
    assert missing == set(manifest["eval_missing_variables"])
    np.testing.assert_array_equal(probabilities.argmax(1), got.argmax(1))
    np.testing.assert_allclose(probabilities.sum(1), 1.0, rtol=1e-5)
    expected = oracle.logits(name)
    assert np.abs(got - expected).max() <= 5e-6 * np.abs(expected).max()
