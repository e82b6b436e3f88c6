"""Scopes against a model that compares lists of components."""

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slim_mp.checkpoints import scopes
from slim_mp.compat import tf
from slim_mp.errors import UsageError

RESNET = list(oracle.manifest("resnet_v1_101")["variables"])
component = st.sampled_from(["unit_1", "unit_10", "unit", "logits", "w", "b"])
name_lists = st.lists(
    st.lists(component, min_size=1, max_size=4).map("/".join), min_size=1, max_size=12, unique=True
)


@given(name_lists, st.lists(component, min_size=1, max_size=2).map("/".join))
def test_whole_components_are_matched(names, scope):
    parts = scope.split("/")
    expected = [name for name in names if name.split("/")[: len(parts)] == parts]
    if expected:
        assert scopes.match_scopes(names, scope) == expected
        with_suffix = [name + ":0" for name in names]
        assert scopes.match_scopes(with_suffix, scope) == [name + ":0" for name in expected]
    else:
        with pytest.raises(UsageError):
            scopes.match_scopes(names, scope)


def test_unit_1_is_not_unit_10():
    found = scopes.match_scopes(RESNET, "resnet_v1_101/block3/unit_1")
    assert len(found) > 0 and all("/unit_1/" in name for name in found)
    both = scopes.match_scopes(
        RESNET, "resnet_v1_101/block3/unit_10, resnet_v1_101/block3/unit_1/,,"
    )
    assert [name for name in both if "/unit_1/" in name] == found
    assert both == [name for name in RESNET if name in set(both)]


@pytest.mark.parametrize("given", [None, "", " , ", [], ()])
def test_no_scope_matches_no_name(given):
    assert scopes.match_scopes(RESNET, given) == []


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("resnet_v1_101/logit", "resnet_v1_101/logits"),
        ("Resnet_V1_101/Block3/unit_2", "resnet_v1_101/block3/unit_2"),
        ("logits", "resnet_v1_101/logits"),
        ("nothing_like_it", "resnet_v1_101"),
    ],
)
def test_a_scope_without_variables_offers_near_ones(wrong, near):
    with pytest.raises(UsageError) as caught:
        scopes.match_scopes(RESNET, ["resnet_v1_101/block1", wrong], flag="trainable_scopes")
    message = str(caught.value)
    assert message.startswith("--trainable_scopes: ") and repr(wrong) in message
    assert near in message.split("scope", 1)[1].replace(repr(wrong), "")


def test_overlapping_scopes_train_each_variable_once():
    with tf.Graph().as_default(), tf.Session() as session:
        first = tf.get_variable("net/unit_1/w", initializer=1.0)
        other = tf.get_variable("net/unit_10/w", initializer=1.0)
        tf.get_variable("net/unit_1/moving_mean", initializer=1.0, trainable=False)
        assert scopes.trainable_variables(None) == [first, other]
        assert scopes.trainable_variables("") == [first, other]
        assert scopes.trainable_variables("net/unit_1", [other, first, first]) == [first]
        chosen = scopes.trainable_variables("net/unit_1,net/unit_1/w,net/unit_1/")
        assert chosen == [first]
        step = tf.train.GradientDescentOptimizer(0.1).minimize(first + other, var_list=chosen)
        session.run(tf.global_variables_initializer())
        session.run(step)
        np.testing.assert_allclose(session.run([first, other]), [0.9, 1.0], rtol=1e-6)


@given(name_lists, st.data())
def test_scopes_to_exclude_hold_what_is_bad_and_do_not_overlap(names, data):
    names = ["net/" + name for name in names]
    bad = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    found = scopes.scopes_to_exclude(bad, names)
    held = scopes.match_scopes(names, found)
    assert set(bad) <= set(held)
    assert "net" not in found
    assert sum(len(scopes.match_scopes(names, scope)) for scope in found) == len(held)


@pytest.mark.parametrize(
    ("network", "bad", "expected"),
    [
        (
            "inception_v3",
            [
                "AuxLogits/Conv2d_2b_1x1/weights",
                "AuxLogits/Conv2d_2b_1x1/biases",
                "Logits/Conv2d_1c_1x1/weights",
                "Logits/Conv2d_1c_1x1/biases",
            ],
            "InceptionV3/AuxLogits,InceptionV3/Logits",
        ),
        ("resnet_v1_50", ["logits/weights", "logits/biases"], "resnet_v1_50/logits"),
        ("vgg_16", ["fc8/weights", "fc8/biases"], "vgg_16/fc8"),
        ("vgg_16", ["fc8/weights"], "vgg_16/fc8"),
        ("resnet_v1_50", ["conv1/BatchNorm/gamma"], "resnet_v1_50/conv1/BatchNorm"),
    ],
)
def test_scopes_to_exclude_of_published_networks(network, bad, expected):
    names = list(oracle.manifest(network)["variables"])
    top = names[0].split("/")[0]
    bad = [f"{top}/{name}" for name in bad]
    assert set(bad) <= set(names)
    assert ",".join(scopes.scopes_to_exclude(bad, names)) == expected
