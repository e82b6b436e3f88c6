"""Nodes by which scripts for research/slim's graph files find the output of a network."""

import pytest

from nets import nets_factory
from slim_mp.compat import tf

# The names that people gave to freeze_graph, label_image, TensorRT and the like.
OUTPUTS = {
    "inception_v1": "InceptionV1/Logits/Predictions/Reshape_1",
    "inception_v3": "InceptionV3/Predictions/Reshape_1",
    "inception_v4": "InceptionV4/Logits/Predictions",
    "resnet_v1_50": "resnet_v1_50/predictions/Reshape_1",
    "vgg_16": "vgg_16/fc8/squeezed",
    "mobilenet_v1_025": "MobilenetV1/Predictions/Reshape_1",
    "mobilenet_v2_035": "MobilenetV2/Predictions/Reshape_1",
    "mobilenet_v3_small_minimalistic": "MobilenetV3/Predictions/Softmax",
    "nasnet_cifar": "final_layer/predictions",
}
# A minute to build on a busy machine.
SLOW = ("nasnet_cifar",)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in OUTPUTS]
)
def test_the_output_has_the_name_that_it_had_in_slim(name):
    with tf.Graph().as_default() as graph:
        network_fn = nets_factory.get_network_fn(name, 3)
        size = network_fn.min_image_size
        network_fn(tf.placeholder(tf.float32, [None, size, size, network_fn.channels]))
        output = graph.get_tensor_by_name(f"{OUTPUTS[name]}:0")
        # The ResNets of tf_slim keep two dimensions of 1 between the two, as slim's did at first.
        assert [size for size in output.shape.as_list() if size != 1] == [None, 3]
