"""What `input_speed` measures: functions from a JPEG file to the input of a network.

Each takes the bytes of a file, string tensor [], and a seed, int64 tensor [2].
"""

from slim_mp import preprocessing
from slim_mp.compat import tf
from slim_mp.preprocessing import colours, crops, image_source, inception_preprocessing

SIZE = 224

_stateless = tf.compat.v2.image


def ours(style, is_training, **choices):
    """The project's own preprocessing."""

    def run(encoded, seed):
        args = (style, encoded, 3, SIZE, SIZE, is_training, seed if is_training else None)
        return preprocessing.preprocess_encoded(*args, **choices)

    return run


def window_of(style, is_training, height, width, seed):
    """The window that the project's preprocessing reads of an image, int32 tensor [4].

    It runs the preprocessing on an image that takes down what is read of it.
    """
    read = []

    def take_down(window):
        read.append(tf.stack([window.top, window.left, window.height, window.width]))
        return tf.zeros(tf.stack([window.height, window.width, 3]), tf.uint8)

    source = image_source.ImageSource(tf.constant(height), tf.constant(width), 3, take_down)
    row = preprocessing.get_preprocessing(style)
    if is_training:
        row.train(source, SIZE, SIZE, seed, colours.CROP, None)
    else:
        row.evaluate(source, SIZE, SIZE, row.central_fraction, crops.CENTRE)
    (window,) = read
    return window


def bare_decoding(windows):
    """The limit: one operation, which decodes a window that was drawn before.

    Args:
      windows: int32 array [n, 4], by the second number of the seed.
    """

    def run(encoded, seed):
        window = tf.gather(tf.constant(windows), seed[1] % len(windows))
        pixels = tf.image.decode_and_crop_jpeg(encoded, window, channels=3)
        return tf.shape(pixels)

    return run


# ---- TensorFlow, as its documentation shows the operations


def _random_window(image_shape, seed):
    """Begin and size of the window that the project draws from the same seed, int32 [3] each."""
    height, width, _ = tf.unstack(image_shape)
    source = image_source.ImageSource(height, width, 3, read=None)
    of_window = tf.random.experimental.stateless_split(seed, 2)[0]
    window = inception_preprocessing.random_window(source, of_window)
    begin = tf.stack([window.top, window.left, 0])
    return begin, tf.stack([window.height, window.width, 3])


def _finished(image, seed, with_colours):
    image = _stateless.resize(image, [SIZE, SIZE])
    image = _stateless.stateless_random_flip_left_right(image, seed)
    if with_colours:
        image = _stateless.stateless_random_brightness(image, 32 / 255, seed)
        image = _stateless.stateless_random_saturation(image, 0.5, 1.5, seed)
        image = _stateless.stateless_random_hue(image, 0.2, seed)
        image = _stateless.stateless_random_contrast(image, 0.5, 1.5, seed)
        image = tf.clip_by_value(image, 0.0, 1.0)
    return (image - 0.5) * 2.0


def documented(with_colours):
    """Decode, convert, crop, resize, flip, scale."""

    def run(encoded, seed):
        image = tf.image.convert_image_dtype(tf.image.decode_jpeg(encoded, 3), tf.float32)
        image = tf.slice(image, *_random_window(tf.shape(image), seed))
        return _finished(image, seed, with_colours)

    return run


def documented_crop(with_colours):
    """The same with the operation that decodes a window only."""

    def run(encoded, seed):
        begin, size = _random_window(tf.image.extract_jpeg_shape(encoded), seed)
        window = tf.concat([begin[:2], size[:2]], 0)
        image = tf.image.decode_and_crop_jpeg(encoded, window, channels=3)
        return _finished(tf.image.convert_image_dtype(image, tf.float32), seed, with_colours)

    return run


def documented_evaluation(encoded, seed):
    """Decode, convert, crop the centre, resize, scale."""
    del seed
    image = tf.image.convert_image_dtype(tf.image.decode_jpeg(encoded, 3), tf.float32)
    image = tf.image.central_crop(image, 0.875)
    return (_stateless.resize(image, [SIZE, SIZE]) - 0.5) * 2.0


def _steps_of_slim(seed):
    return {
        "b": lambda x: _stateless.stateless_random_brightness(x, 32 / 255, seed),
        "s": lambda x: _stateless.stateless_random_saturation(x, 0.5, 1.5, seed),
        "h": lambda x: _stateless.stateless_random_hue(x, 0.2, seed),
        "c": lambda x: _stateless.stateless_random_contrast(x, 0.5, 1.5, seed),
    }


def slims_order(encoded, seed):
    """slim's order: all decoded and converted, one of four resizings, four orders of colours."""
    image = tf.image.convert_image_dtype(tf.image.decode_jpeg(encoded, 3), tf.float32)
    image = tf.slice(image, *_random_window(tf.shape(image), seed))
    number = tf.random.stateless_uniform([], seed, 0, 4, tf.int32)
    resizings = [
        lambda method=method: tf.image.resize_images(image, [SIZE, SIZE], method)
        for method in range(4)
    ]
    image = tf.ensure_shape(tf.switch_case(number, resizings), [SIZE, SIZE, 3])
    flipped = _stateless.stateless_random_flip_left_right(image, seed)
    steps = _steps_of_slim(seed)

    def in_order(order):
        result = flipped
        for step in order:
            result = steps[step](result)
        return tf.clip_by_value(result, 0.0, 1.0)

    orders = [lambda order=order: in_order(order) for order in ("bshc", "sbch", "chbs", "hscb")]
    return (tf.switch_case(number, orders) - 0.5) * 2.0
