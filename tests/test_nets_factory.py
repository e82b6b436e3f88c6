"""What get_network_fn checks and promises, on small networks."""

import numpy as np
import pytest

from nets.nets_factory import NETWORKS, get_network_fn
from slim_mp.compat import tf
from slim_mp.errors import UsageError


def _images(size, channels=3, batch_size=2):
    pixels = np.random.default_rng(0).uniform(-1, 1, [batch_size, size, size, channels])
    return tf.constant(pixels, tf.float32)


def test_the_table_cannot_be_changed():
    with pytest.raises(TypeError):
        NETWORKS["mine"] = NETWORKS["lenet"]


def test_network_fn_says_what_it_is():
    network_fn = get_network_fn("resnet_v2_50", 10)
    assert network_fn.name == "resnet_v2_50"
    assert network_fn.default_image_size == 224
    assert network_fn.min_image_size == 32
    assert network_fn.preprocessing == "inception"
    assert network_fn.channels == 3


def test_unknown_name_offers_near_and_all_names():
    with pytest.raises(UsageError, match=r"resnet50_v1.*Did you mean .*resnet_v1_50") as error:
        get_network_fn("resnet50_v1", 10)
    assert all(name in str(error.value) for name in NETWORKS)


def test_a_name_like_no_other_lists_the_names_without_a_guess():
    with pytest.raises(UsageError, match="lenet, cifarnet") as error:
        get_network_fn("zzz", 10)
    assert "Did you mean" not in str(error.value)


@pytest.mark.parametrize("num_classes", [-1, 2.5, "10", True])
def test_number_of_classes_is_checked(num_classes):
    with pytest.raises(UsageError, match="num_classes is"):
        get_network_fn("lenet", num_classes)


@pytest.mark.parametrize("weight_decay", [-0.1, float("nan"), float("inf"), None])
def test_weight_decay_is_checked(weight_decay):
    with pytest.raises(UsageError, match="weight_decay is"):
        get_network_fn("lenet", 10, weight_decay=weight_decay)


def test_precision_is_checked_before_a_graph_is_built():
    with pytest.raises(UsageError, match="fp64"):
        get_network_fn("lenet", 10, precision="fp64")


@pytest.mark.parametrize("name", NETWORKS)
def test_too_small_images_are_refused_with_the_least_size(name):
    network_fn = get_network_fn(name, 10)
    least = network_fn.min_image_size
    with tf.Graph().as_default(), pytest.raises(UsageError, match=f"at least {least}x{least}"):
        network_fn(_images(least - 1))


def test_images_that_are_no_float_batch_are_refused():
    network_fn = get_network_fn("lenet", 10)
    with tf.Graph().as_default():
        with pytest.raises(UsageError, match="uint8"):
            network_fn(tf.zeros([2, 28, 28, 1], tf.uint8))
        with pytest.raises(UsageError, match="batch, height, width"):
            network_fn(tf.zeros([28, 28, 1]))


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_inside_half_outside_float32(precision):
    with tf.Graph().as_default(), tf.Session() as session:
        network_fn = get_network_fn("mobilenet_v1_025", 7, precision=precision)
        logits, end_points = network_fn(_images(32))
        assert end_points["Conv2d_5_pointwise"].dtype.size == 2
        session.run(tf.global_variables_initializer())
        got, head, probabilities = session.run(
            [logits, end_points["Logits"], end_points["Predictions"]]
        )
    assert got.dtype == probabilities.dtype == np.float32
    np.testing.assert_array_equal(got, head)
    np.testing.assert_allclose(probabilities.sum(1), 1.0, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "size", "shape"),
    [
        ("lenet", 28, [2, 1024]),
        ("cifarnet", 32, [2, 192]),
        ("mobilenet_v1_050", 64, [2, 1, 1, 512]),
        ("resnet_v1_50", 64, [2, 1, 1, 2048]),
    ],
)
def test_no_classes_gives_the_features(name, size, shape):
    variables = {}
    for num_classes in (0, None, 5):
        with tf.Graph().as_default():
            output, end_points = get_network_fn(name, num_classes)(_images(size))
            variables[num_classes] = {variable.op.name for variable in tf.model_variables()}
        if not num_classes:
            assert output.shape.as_list() == shape
            assert "Predictions" not in end_points
    assert variables[0] == variables[None] < variables[5]
    assert len(variables[5] - variables[0]) == 2


def test_a_network_that_needs_its_last_layer_says_so():
    network_fn = get_network_fn("alexnet_v2", None)
    with tf.Graph().as_default(), pytest.raises(UsageError, match="without its last layer"):
        network_fn(_images(224))


@pytest.mark.parametrize(
    ("name", "size"), [("alexnet_v2", 300), ("inception_v2", 300), ("resnet_v1_50", 97)]
)
def test_larger_images_give_one_row_of_logits_an_image(name, size):
    with tf.Graph().as_default():
        logits, _ = get_network_fn(name, 5)(_images(size))
        assert logits.shape.as_list() == [2, 5]


def test_score_maps_can_be_had_and_average_to_the_logits():
    with tf.Graph().as_default(), tf.Session() as session:
        network_fn = get_network_fn("inception_v2", 5)
        images = _images(300)
        with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
            logits, _ = network_fn(images)
            maps, _ = network_fn(images, spatial_squeeze=False)
        session.run(tf.global_variables_initializer())
        logits, maps = session.run([logits, maps])
    assert maps.shape[1:3] == (2, 2)
    np.testing.assert_allclose(maps.mean((1, 2)), logits, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["resnet_v2_50", "inception_v1"])
def test_pooled_end_point_is_the_mean_of_the_last_map(name):
    last_map, pooled = {
        "resnet_v2_50": ("resnet_v2_50/postnorm/Relu:0", "global_pool"),
        "inception_v1": ("InceptionV1/InceptionV1/Mixed_5c/concat:0", "AvgPool_0a_7x7"),
    }[name]
    with tf.Graph().as_default(), tf.Session() as session:
        _, end_points = get_network_fn(name, 5)(_images(224, batch_size=1))
        session.run(tf.global_variables_initializer())
        features, maps = session.run([end_points[pooled], last_map])
    np.testing.assert_allclose(features, maps.mean((1, 2), keepdims=True), rtol=1e-4, atol=1e-6)


def test_images_of_unknown_size_are_taken():
    with tf.Graph().as_default(), tf.Session() as session:
        images = tf.placeholder(tf.float32, [None, None, None, 3])
        logits, _ = get_network_fn("mobilenet_v1_025", 4)(images)
        session.run(tf.global_variables_initializer())
        assert session.run(logits, {images: np.zeros([3, 40, 56, 3])}).shape == (3, 4)
