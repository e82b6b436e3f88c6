"""Images of noise, for measurements of speed without an input."""

from slim_mp.compat import tf


def examples(dataset, config, count, dtype):
    """Returns a stream of `count` images in [-1, 1) and labels, a function of the seed.

    Args:
      dataset: the synthetic `Dataset`.
      config: an `InputConfig`.
      count: an int.
      dtype: the tf.DType of the images.

    Returns:
      A tf.data.Dataset of dicts: `image`, [image_size, image_size, channels] in `dtype`, with an
      axis of crops before if there are ten; `label`, int64 [], `name`, string [], and `seed`,
      int64 [2].
    """
    crops = [] if config.crops == 1 else [config.crops]
    shape = [*crops, config.image_size, config.image_size, config.channels]

    def make(index):
        seed = tf.stack([tf.constant(config.seed or 0, tf.int64), index])
        classes = dataset.num_classes - config.labels_offset
        image = tf.random.stateless_uniform(shape, seed, -1.0, 1.0)
        return {
            "image": tf.cast(image, dtype),
            "label": tf.random.stateless_uniform([], seed, 0, classes, tf.int64),
            "seed": seed,
            "name": tf.strings.as_string(index),
        }

    indices = tf.data.Dataset.range(count).map(lambda k: k * config.num_shards + config.shard_index)
    return indices.map(make)
