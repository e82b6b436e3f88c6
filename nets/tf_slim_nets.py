"""The networks of the tf_slim package, completed to what their originals in research/slim return.

The variables are the same; the originals give logits `[batch, num_classes]`, and end points for the
pooled features. Completed like this, images may also be larger than the published ones.
"""

import functools

from tf_slim.nets import alexnet, inception, overfeat, resnet_v1, resnet_v2, vgg

from slim_mp.compat import slim, tf
from slim_mp.errors import UsageError


class _Squeeze:
    """Averages score maps `[batch, height, width, num_classes]` to `[batch, num_classes]`, once.

    For the published image size the map has one position. For larger images this is the dense
    evaluation of Simonyan and Zisserman, arXiv:1409.1556, section 3.2.
    """

    def __init__(self, node):
        self._node = node
        self._logits = None

    def __call__(self, maps):
        if self._logits is None:
            self._logits = tf.reduce_mean(maps, [1, 2], name=self._node)
        return self._logits

    def predict(self, maps, scope):
        """Stands for slim.softmax where a network takes another function in its place."""
        return slim.softmax(self(maps), scope=scope)


def _pooled_features(logits):
    """Returns the tensor of the average pooling that the logits come from, None without one."""
    queue = [logits.op]
    seen = set(queue)
    for op in queue:
        if op.type in ("AvgPool", "Mean"):
            return op.outputs[0]
        inputs = [tensor.op for tensor in op.inputs if tensor.op not in seen]
        queue.extend(inputs)
        seen.update(inputs)
    return None


def _completed(function, squeezed, node, pooled=None, headless=False, predicts=False):
    """Makes a network of tf_slim return what its original in research/slim returns.

    Args:
      function: the network; it returns logits `[batch, height, width, num_classes]`, if it takes
        `spatial_squeeze` then where that is false.
      squeezed: name of the end point that holds the logits `[batch, num_classes]`.
      node: name of the operation that gives them in the original, by which scripts find it;
        relative to the network's scope if it predicts.
      pooled: name of the end point that holds the pooled features, if the original has one.
      headless: whether the network can be built without its last layer, and returns its logits
        with their spatial dimensions without being asked to.
      predicts: whether the network takes the function that makes its predictions.

    Returns:
      A function of the same arguments. It raises UsageError if `num_classes` is 0 or None and the
      network always has its last layer.
    """

    @functools.wraps(function)
    def network(images, num_classes, *, spatial_squeeze=True, **kwargs):
        if not headless:
            kwargs["spatial_squeeze"] = False
            if not num_classes:
                raise UsageError(
                    f"{function.__name__} cannot be built without its last layer (num_classes is "
                    f"{num_classes!r}): give the number of classes and take the features from the "
                    "end points."
                )
        squeeze = _Squeeze(node)
        if predicts and spatial_squeeze:
            kwargs["prediction_fn"] = squeeze.predict
        logits, end_points = function(images, num_classes or None, **kwargs)
        features = _pooled_features(logits) if pooled else None
        if features is not None:
            end_points[pooled] = features
        if not num_classes or not spatial_squeeze:
            return logits, end_points
        end_points[squeezed] = squeeze(logits)
        if "AuxLogits" in end_points:
            end_points["AuxLogits"] = _Squeeze("AuxSpatialSqueeze")(end_points["AuxLogits"])
        return end_points[squeezed], end_points

    return network


def _inception(function, pooled, node="Logits/SpatialSqueeze"):
    return _completed(function, squeezed="Logits", node=node, pooled=pooled, predicts=True)


def _fully_convolutional(function):
    squeezed = f"{function.__name__}/fc8"
    return _completed(function, squeezed=squeezed, node=f"{squeezed}/squeezed")


def _resnet(function):
    squeezed, node = f"{function.__name__}/spatial_squeeze", f"{function.__name__}/SpatialSqueeze"
    return _completed(function, squeezed, node, pooled="global_pool", headless=True)


alexnet_v2 = _fully_convolutional(alexnet.alexnet_v2)
alexnet_v2_arg_scope = alexnet.alexnet_v2_arg_scope

overfeat_arg_scope = overfeat.overfeat_arg_scope
overfeat = _fully_convolutional(overfeat.overfeat)

vgg_a = _fully_convolutional(vgg.vgg_a)
vgg_16 = _fully_convolutional(vgg.vgg_16)
vgg_19 = _fully_convolutional(vgg.vgg_19)
vgg_arg_scope = vgg.vgg_arg_scope

inception_v1 = _inception(inception.inception_v1, "AvgPool_0a_7x7", node="SpatialSqueeze")
inception_v1_arg_scope = inception.inception_v1_arg_scope
inception_v2 = _inception(inception.inception_v2, pooled="AvgPool_1a")
inception_v2_arg_scope = inception.inception_v2_arg_scope
inception_v3 = _inception(inception.inception_v3, pooled="AvgPool_1a")
inception_v3_arg_scope = inception.inception_v3_arg_scope

resnet_v1_50 = _resnet(resnet_v1.resnet_v1_50)
resnet_v1_101 = _resnet(resnet_v1.resnet_v1_101)
resnet_v1_152 = _resnet(resnet_v1.resnet_v1_152)
resnet_v1_200 = _resnet(resnet_v1.resnet_v1_200)
resnet_v2_50 = _resnet(resnet_v2.resnet_v2_50)
resnet_v2_101 = _resnet(resnet_v2.resnet_v2_101)
resnet_v2_152 = _resnet(resnet_v2.resnet_v2_152)
resnet_v2_200 = _resnet(resnet_v2.resnet_v2_200)
resnet_arg_scope = resnet_v1.resnet_arg_scope
