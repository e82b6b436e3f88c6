"""Mixes the images of a training batch, and their labels by the same shares: mixup and CutMix."""

from slim_mp.compat import tf


def mix(images, labels, num_classes, config, seed):
    """Mixes each image of a batch with another one of it, all by the same share.

    Where the config asks for mixup and CutMix, each batch has one of them at random.

    Args:
      images: float32 tensor [batch, height, width, channels], of static shape.
      labels: int64 tensor [batch].
      num_classes: an int.
      config: an `AugmentationConfig` that mixes.
      seed: int32 or int64 tensor [2]; the result is a function of it.

    Returns:
      (images, labels): float32 of the shape of the images, and float32 [batch, num_classes], the
      share of each class in each image; each row sums to 1.
    """
    order, choice, share = tf.unstack(tf.random.experimental.stateless_split(seed, 3))
    draws = tf.random.stateless_uniform(labels.shape, order)
    others = tf.argsort(draws, stable=True)
    one_hot = tf.one_hot(labels, num_classes)

    def with_mixup():
        return _mixup(images, others, config.mixup, share)

    def with_cutmix():
        return _cutmix(images, others, config.cutmix, share)

    if config.mixup and config.cutmix:
        is_mixup = tf.random.stateless_uniform([], choice) < 0.5
        images, kept = tf.cond(is_mixup, with_mixup, with_cutmix)
    else:
        images, kept = with_mixup() if config.mixup else with_cutmix()
    return images, kept * one_hot + (1.0 - kept) * tf.gather(one_hot, others)


def _mixup(images, others, alpha, seed):
    """Zhang et al., "mixup: Beyond Empirical Risk Minimization", arXiv:1710.09412."""
    kept = _beta(alpha, seed)
    return kept * images + (1.0 - kept) * tf.gather(images, others), kept


def _cutmix(images, others, alpha, seed):
    """Yun et al., "CutMix", arXiv:1905.04899; the share is that of the area that was not cut."""
    _, height, width, channels = images.shape.as_list()
    size, row, column = tf.unstack(tf.random.experimental.stateless_split(seed, 3))
    side = tf.sqrt(1.0 - _beta(alpha, size))
    is_row = _is_within(height, side, row)
    is_column = _is_within(width, side, column)
    is_cut = tf.logical_and(is_row[:, tf.newaxis], is_column[tf.newaxis])[..., tf.newaxis]
    # Twice as quick as a choice for each pixel, and as exact.
    cut = tf.tile(tf.cast(is_cut, tf.float32), [1, 1, channels])
    mixed = images * (1.0 - cut) + tf.gather(images, others) * cut
    return mixed, 1.0 - tf.reduce_mean(cut)


def _is_within(length, share, seed):
    """bool [length]: a stretch of a share of it about a random place, cut off at the ends."""
    centre = tf.random.stateless_uniform([], seed, 0, length, tf.int32)
    stretch = tf.cast(share * tf.cast(length, tf.float32), tf.int32)
    places = tf.range(length)
    begin = centre - stretch // 2
    return tf.logical_and(places >= begin, places < begin + stretch)


def _beta(alpha, seed):
    """A float32 [] from the Beta distribution of alpha and alpha, for any alpha above 0.

    A gamma variable of a small alpha is too small for a float; its logarithm is not. It is that of
    alpha + 1 times the power 1 / alpha of a uniform one (Marsaglia and Tsang, 2000).
    """
    gammas, powers = tf.unstack(tf.random.experimental.stateless_split(seed, 2))
    gamma = tf.random.stateless_gamma([2], gammas, alpha + 1.0, dtype=tf.float64)
    uniform = 1.0 - tf.random.stateless_uniform([2], powers, dtype=tf.float64)
    # Below the bound the share is 0 or 1 anyway, and infinity less infinity would be no number.
    logarithms = tf.math.log(gamma) + tf.math.log(uniform) / max(alpha, 1e-9)
    return tf.cast(tf.sigmoid(logarithms[0] - logarithms[1]), tf.float32)
