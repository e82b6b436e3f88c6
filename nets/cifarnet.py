"""CifarNet for 32x32 colour images.

A small relative of the network of A. Krizhevsky, I. Sutskever and G. Hinton, "ImageNet
classification with deep convolutional neural networks", NIPS 2012, from which it takes the local
response normalisation (section 3.3), for the images of A. Krizhevsky, "Learning multiple layers of
features from tiny images", 2009. Layers, sizes and initialisation are those of TF-Slim's variant.
"""

from slim_mp.compat import slim, tf


def _normalized(net, name):
    return tf.nn.lrn(net, depth_radius=4, bias=1.0, alpha=0.001 / 9.0, beta=0.75, name=name)


def cifarnet(images, num_classes=10, is_training=False, dropout_keep_prob=0.5, scope="CifarNet"):
    """Builds CifarNet.

    Args:
      images: [batch, height, width, channels] floats; published at 32x32x3, at least 4x4.
      num_classes: size of the output; 0 or None returns the features below the last layer.
      is_training: whether dropout is on.
      dropout_keep_prob: probability that a feature is kept.
      scope: variable scope.

    Returns:
      The logits [batch, num_classes] or the features [batch, 192], and the end points.
    """
    end_points = {}
    with tf.variable_scope(scope, "CifarNet", [images]):
        net = end_points["conv1"] = slim.conv2d(images, 64, [5, 5], scope="conv1")
        net = end_points["pool1"] = slim.max_pool2d(net, [2, 2], 2, scope="pool1")
        net = _normalized(net, "norm1")
        net = end_points["conv2"] = slim.conv2d(net, 64, [5, 5], scope="conv2")
        net = _normalized(net, "norm2")
        net = end_points["pool2"] = slim.max_pool2d(net, [2, 2], 2, scope="pool2")
        net = end_points["Flatten"] = slim.flatten(net)
        net = end_points["fc3"] = slim.fully_connected(net, 384, scope="fc3")
        net = slim.dropout(net, dropout_keep_prob, is_training=is_training, scope="dropout3")
        net = end_points["fc4"] = slim.fully_connected(net, 192, scope="fc4")
        if not num_classes:
            return net, end_points
        logits = slim.fully_connected(
            net,
            num_classes,
            activation_fn=None,
            weights_initializer=tf.truncated_normal_initializer(stddev=1 / 192.0),
            weights_regularizer=None,
            biases_initializer=tf.zeros_initializer(),
            scope="logits",
        )
        end_points["Logits"] = logits
        end_points["Predictions"] = slim.softmax(logits, scope="Predictions")
        return logits, end_points


def cifarnet_arg_scope(weight_decay=0.004):
    """Returns the arg_scope that `cifarnet` is built in.

    Args:
      weight_decay: scale of the L2 loss, which only the two hidden fully connected layers have.
    """
    common = {"biases_initializer": tf.constant_initializer(0.1), "activation_fn": tf.nn.relu}
    with (
        slim.arg_scope(
            [slim.conv2d],
            weights_initializer=tf.truncated_normal_initializer(stddev=0.05),
            **common,
        ),
        slim.arg_scope(
            [slim.fully_connected],
            weights_initializer=tf.truncated_normal_initializer(stddev=0.04),
            weights_regularizer=slim.l2_regularizer(weight_decay),
            **common,
        ) as arg_scope,
    ):
        return arg_scope
