"""LeNet for handwritten digits.

The arrangement of Y. LeCun, L. Bottou, Y. Bengio and P. Haffner, "Gradient-based learning applied
to document recognition", Proc. IEEE 86(11), 1998 (convolution, pooling, convolution, pooling, fully
connected layers), in TF-Slim's wider variant with rectifiers, max pooling and dropout.
"""

from slim_mp.compat import slim, tf


def lenet(images, num_classes=10, is_training=False, dropout_keep_prob=0.5, scope="LeNet"):
    """Builds LeNet.

    Args:
      images: [batch, height, width, channels] floats; published at 28x28x1, at least 4x4.
      num_classes: size of the output; 0 or None returns the features below the last layer.
      is_training: whether dropout is on.
      dropout_keep_prob: probability that a feature is kept.
      scope: variable scope.

    Returns:
      The logits [batch, num_classes] or the features [batch, 1024], and the end points.
    """
    end_points = {}
    with tf.variable_scope(scope, "LeNet", [images]):
        net = end_points["conv1"] = slim.conv2d(images, 32, [5, 5], scope="conv1")
        net = end_points["pool1"] = slim.max_pool2d(net, [2, 2], 2, scope="pool1")
        net = end_points["conv2"] = slim.conv2d(net, 64, [5, 5], scope="conv2")
        net = end_points["pool2"] = slim.max_pool2d(net, [2, 2], 2, scope="pool2")
        net = end_points["Flatten"] = slim.flatten(net)
        net = end_points["fc3"] = slim.fully_connected(net, 1024, scope="fc3")
        net = end_points["dropout3"] = slim.dropout(
            net, dropout_keep_prob, is_training=is_training, scope="dropout3"
        )
        if not num_classes:
            return net, end_points
        logits = slim.fully_connected(net, num_classes, activation_fn=None, scope="fc4")
        end_points["Logits"] = logits
        end_points["Predictions"] = slim.softmax(logits, scope="Predictions")
        return logits, end_points


def lenet_arg_scope(weight_decay=0.0):
    """Returns the arg_scope that `lenet` is built in.

    Args:
      weight_decay: scale of the L2 loss, which all weights have.
    """
    with slim.arg_scope(
        [slim.conv2d, slim.fully_connected],
        weights_regularizer=slim.l2_regularizer(weight_decay),
        weights_initializer=tf.truncated_normal_initializer(stddev=0.1),
        activation_fn=tf.nn.relu,
    ) as arg_scope:
        return arg_scope
