"""MobileNet v1.

A. G. Howard, M. Zhu, B. Chen, D. Kalenichenko, W. Wang, T. Weyand, M. Andreetto and H. Adam,
"MobileNets: efficient convolutional neural networks for mobile vision applications",
arXiv:1704.04861, table 1, with the width multiplier of section 3.3.
"""

import functools

from slim_mp.compat import slim, tf

# (depth, stride) of each depthwise separable layer, table 1 of the paper; the stride 2 that the
# table gives the last of them would halve its 7x7 map, which it prints as 7x7 again.
_SEPARABLE_LAYERS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *((512, 1),) * 5,
    (1024, 2),
    (1024, 1),
)


def _features(images, depth_multiplier, min_depth):
    """Returns the last feature map and the end points of all convolutions."""
    end_points = {}

    def depth(full):
        return max(int(full * depth_multiplier), min_depth)

    net = slim.conv2d(images, depth(32), [3, 3], stride=2, scope="Conv2d_0")
    end_points["Conv2d_0"] = net
    for index, (full_depth, stride) in enumerate(_SEPARABLE_LAYERS, start=1):
        name = f"Conv2d_{index}_depthwise"
        # No number of outputs: the depthwise half alone, with its own batch norm.
        net = end_points[name] = slim.separable_conv2d(
            net, None, [3, 3], depth_multiplier=1, stride=stride, scope=name
        )
        name = f"Conv2d_{index}_pointwise"
        net = end_points[name] = slim.conv2d(net, depth(full_depth), [1, 1], scope=name)
    return net, end_points


def mobilenet_v1(
    images,
    num_classes=1000,
    is_training=False,
    dropout_keep_prob=0.999,
    depth_multiplier=1.0,
    min_depth=8,
    spatial_squeeze=True,
    reuse=None,
    scope="MobilenetV1",
):
    """Builds MobileNet v1.

    Args:
      images: [batch, height, width, channels] floats; published at 224x224x3, at least 32x32.
      num_classes: size of the output; 0 or None returns the pooled features.
      is_training: whether batch norm uses the batch and dropout is on.
      dropout_keep_prob: probability that a pooled feature is kept.
      depth_multiplier: factor of the number of channels of every layer, more than 0.
      min_depth: least number of channels of a layer.
      spatial_squeeze: whether the logits lose their two spatial dimensions, which are 1.
      reuse: whether to use existing variables.
      scope: variable scope.

    Returns:
      The logits [batch, num_classes], or [batch, 1, 1, num_classes] without `spatial_squeeze`, or
      the features [batch, 1, 1, depth], and the end points.
    """
    with (
        tf.variable_scope(scope, "MobilenetV1", [images], reuse=reuse),
        slim.arg_scope([slim.batch_norm, slim.dropout], is_training=is_training),
    ):
        net, end_points = _features(images, depth_multiplier, min_depth)
        with tf.variable_scope("Logits"):
            # Over the whole map, whatever its size: images need not be of the published size.
            net = tf.reduce_mean(net, [1, 2], keepdims=True, name="AvgPool_1a")
            end_points["AvgPool_1a"] = net
            if not num_classes:
                return net, end_points
            net = slim.dropout(net, keep_prob=dropout_keep_prob, scope="Dropout_1b")
            logits = slim.conv2d(
                net,
                num_classes,
                [1, 1],
                activation_fn=None,
                normalizer_fn=None,
                scope="Conv2d_1c_1x1",
            )
            if spatial_squeeze:
                logits = tf.squeeze(logits, [1, 2], name="SpatialSqueeze")
        end_points["Logits"] = logits
        end_points["Predictions"] = slim.softmax(logits, scope="Predictions")
        return logits, end_points


mobilenet_v1_075 = functools.partial(mobilenet_v1, depth_multiplier=0.75)
mobilenet_v1_050 = functools.partial(mobilenet_v1, depth_multiplier=0.50)
mobilenet_v1_025 = functools.partial(mobilenet_v1, depth_multiplier=0.25)


def mobilenet_v1_arg_scope(weight_decay=0.00004, batch_norm_decay=0.9997, batch_norm_epsilon=0.001):
    """Returns the arg_scope that `mobilenet_v1` is built in.

    Args:
      weight_decay: scale of the L2 loss of the weights. Depthwise weights have none: they are few,
        and the paper (section 3.2) found that decay harms them.
      batch_norm_decay: decay of the moving statistics.
      batch_norm_epsilon: added to the variance.
    """
    batch_norm = {"center": True, "scale": True, "decay": batch_norm_decay}
    with (
        slim.arg_scope(
            [slim.conv2d, slim.separable_conv2d],
            weights_initializer=tf.truncated_normal_initializer(stddev=0.09),
            activation_fn=tf.nn.relu6,
            normalizer_fn=slim.batch_norm,
            normalizer_params={"epsilon": batch_norm_epsilon, **batch_norm},
        ),
        slim.arg_scope([slim.conv2d], weights_regularizer=slim.l2_regularizer(weight_decay)),
        slim.arg_scope([slim.separable_conv2d], weights_regularizer=None) as arg_scope,
    ):
        return arg_scope
