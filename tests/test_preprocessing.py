import numpy as np
import pytest
from skimage import data as photographs

from slim_mp import preprocessing
from slim_mp.compat import tf
from slim_mp.errors import UsageError
from slim_mp.preprocessing import image_source, inception_preprocessing

STYLES = tuple(preprocessing.PREPROCESSINGS)
MEANS = np.array([123.68, 116.78, 103.94])


def run(style, image, size, seeds=None, graph_seed=None):
    """Results of a style for one image; for training one for each seed."""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.set_random_seed(graph_seed)
        placeholder = tf.placeholder(tf.uint8, [None, None, image.shape[-1]])
        seed = tf.placeholder(tf.int64, [2])
        training = seeds is not None
        result = preprocessing.preprocess(style, placeholder, size, size, training, seed)
        assert result.shape == (size, size, image.shape[-1]) and result.dtype == tf.float32
        graph.finalize()
        feeds = [{placeholder: image, seed: pair} for pair in seeds or [[0, 0]]]
        results = [session.run(result, feed) for feed in feeds]
    return results if training else results[0]


def resize_like_tensorflow_1(image, height, width):
    """Bilinear interpolation at i * old / new, written out with numpy."""
    image = image.astype(np.float64)
    for axis, new in ((0, height), (1, width)):
        old = image.shape[axis]
        position = np.arange(new) * (old / new)
        low = np.floor(position).astype(int)
        high = np.minimum(low + 1, old - 1)
        weight = (position - low).reshape([-1 if a == axis else 1 for a in range(3)])
        image = np.take(image, low, axis) * (1 - weight) + np.take(image, high, axis) * weight
    return image


@pytest.mark.parametrize("photograph", [photographs.chelsea, photographs.coffee])
@pytest.mark.parametrize("size", [224, 65])
def test_inception_evaluation_is_the_central_crop_resized(photograph, size):
    image = photograph()
    height, width = image.shape[:2]
    top, left = int((height - height * 0.875) / 2), int((width - width * 0.875) / 2)
    crop = image[top : height - top, left : width - left]
    expected = resize_like_tensorflow_1(crop, size, size) / 127.5 - 1
    np.testing.assert_allclose(run("inception", image, size), expected, atol=1e-4)


@pytest.mark.parametrize("photograph", [photographs.chelsea, photographs.astronaut])
@pytest.mark.parametrize(("size", "side"), [(224, 256), (56, 64)])
def test_vgg_evaluation_is_the_centre_of_the_resized_image(photograph, size, side):
    image = photograph()
    height, width = (round(n * side / min(image.shape[:2])) for n in image.shape[:2])
    resized = resize_like_tensorflow_1(image, height, width)
    top, left = (height - size) // 2, (width - size) // 2
    expected = resized[top : top + size, left : left + size] - MEANS
    np.testing.assert_allclose(run("vgg", image, size), expected, atol=2e-2)


def test_cifarnet_evaluation_crops_or_pads_and_standardises():
    image = photographs.chelsea()[:40, :24]
    padded = np.zeros([32, 32, 3])
    padded[:, 4:28] = image[4:36]
    expected = (padded - padded.mean()) / max(padded.std(), 1 / np.sqrt(padded.size))
    np.testing.assert_allclose(run("cifarnet", image, 32), expected, atol=1e-5)


def test_lenet_keeps_images_of_the_asked_size_and_fills_the_frame_with_others():
    image = photographs.camera()[:28, :28, np.newaxis]
    np.testing.assert_allclose(run("lenet", image, 28), (image - 128.0) / 128, atol=1e-6)
    small = np.full([8, 8, 1], 255, np.uint8)
    np.testing.assert_allclose(run("lenet", small, 28), np.full([28, 28, 1], 127 / 128), atol=1e-6)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("style", STYLES)
def test_training_is_a_function_of_the_seed_only(style, channels):
    image = photographs.chelsea()[:90, :120, :channels]
    seeds = [[1, 5], [1, 6], [2, 5]]
    first = run(style, image, 28, seeds, graph_seed=3)
    np.testing.assert_array_equal(first, run(style, image, 28, seeds, graph_seed=4))
    if style != "lenet":
        assert not np.array_equal(first[0], first[1])
        assert not np.array_equal(first[0], first[2])
    assert np.isfinite(first).all()


@pytest.mark.parametrize("style", STYLES)
def test_no_random_operation_keeps_a_state(style):
    with tf.Graph().as_default() as graph:
        image = tf.placeholder(tf.uint8, [None, None, 3])
        preprocessing.preprocess(style, image, 28, 28, True, tf.constant([1, 2]))
        definition = graph.as_graph_def()
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    operations = {node.op for node in nodes}
    assert style == "lenet" or any(name.startswith("Stateless") for name in operations)
    assert not {name for name in operations if name.startswith(("Random", "SampleDistorted"))}


@pytest.mark.parametrize("style", ["inception", "vgg", "cifarnet"])
def test_about_half_of_the_training_images_are_flipped(style):
    ramp = np.tile(np.linspace(0, 250, 64, dtype=np.uint8)[:, np.newaxis], [64, 1, 3])
    results = run(style, ramp, 28, [[0, n] for n in range(60)])
    flipped = sum(image[:, :14].mean() > image[:, 14:].mean() for image in results)
    assert 15 <= flipped <= 45


@pytest.mark.parametrize(("size", "lowest", "highest"), [(224, 256, 512), (56, 64, 128)])
def test_vgg_training_sees_shorter_sides_of_the_whole_range(size, lowest, highest):
    ramp = np.tile(np.arange(256, dtype=np.uint8)[:, np.newaxis], [256, 1, 3])
    results = run("vgg", ramp, size, [[7, n] for n in range(40)])
    # One pixel of a shorter side of n pixels is 256 / n steps of the ramp.
    sides = [256 / np.median(np.abs(np.diff(image[0, :, 0]))) for image in results]
    assert lowest - 0.5 <= min(sides) < lowest * 1.2
    assert highest * 0.8 < max(sides) <= highest + 0.5


def test_inception_training_crops_keep_to_their_area_and_aspect():
    image = photographs.coffee()
    with tf.Graph().as_default(), tf.Session() as session:
        seed = tf.placeholder(tf.int64, [2])
        source = image_source.from_pixels(tf.constant(image))
        window = inception_preprocessing.random_window(source, seed)
        size = [window.height, window.width]
        shapes = np.array([session.run(size, {seed: [0, n]}) for n in range(200)])
    areas = shapes[:, 0] * shapes[:, 1] / (image.shape[0] * image.shape[1])
    aspects = shapes[:, 1] / shapes[:, 0]
    assert 0.045 < areas.min() < 0.2 and 0.7 < areas.max() <= 1
    assert 0.74 < aspects.min() < 0.85 and 1.2 < aspects.max() < 1.52


def test_inception_training_changes_only_the_brightness_of_plain_grey():
    grey = np.full([40, 40, 3], 128, np.uint8)
    results = np.array(run("inception", grey, 16, [[0, n] for n in range(40)]))
    np.testing.assert_allclose(
        results, np.broadcast_to(results[:, :1, :1, :1], results.shape), atol=2e-3
    )
    change = (results[:, 0, 0, 0] + 1) * 127.5 - 128
    assert -32.5 < change.min() < -16 and 16 < change.max() < 32.5


def test_inception_training_stays_in_range():
    results = np.array(run("inception", photographs.coffee(), 32, [[0, n] for n in range(20)]))
    assert results.min() >= -1 and results.max() <= 1
    assert results.min() < -0.9 and results.max() > 0.9


def test_cifarnet_training_crops_from_a_border_of_four_pixels():
    image = np.full([32, 32, 3], 255, np.uint8)
    white = [
        result == result.max() for result in run("cifarnet", image, 32, [[0, n] for n in range(40)])
    ]
    heights = {int(mask[:, :, 0].any(axis=1).sum()) for mask in white}
    widths = {int(mask[:, :, 0].any(axis=0).sum()) for mask in white}
    assert heights == widths == {28, 29, 30, 31, 32}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 50), (200, 7)])
def test_any_image_size_will_do(style, shape):
    image = photographs.chelsea()[: shape[0], : shape[1]]
    assert np.isfinite(run(style, image, 24)).all()
    assert np.isfinite(run(style, image, 24, [[0, 0], [0, 1]])).all()


def test_grey_vgg_images_lose_the_grey_of_the_means():
    grey = np.full([30, 30, 1], 117, np.uint8)
    np.testing.assert_allclose(run("vgg", grey, 28), np.full([28, 28, 1], 117 - 117.38), atol=0.01)


def test_an_unknown_style_lists_those_there_are():
    with pytest.raises(UsageError, match=r"'incepton'.*inception, vgg, cifarnet, lenet"):
        preprocessing.get_preprocessing("incepton")


def test_training_without_a_seed_and_odd_channels_are_refused():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="seed"):
            preprocessing.preprocess("vgg", tf.zeros([9, 9, 3], tf.uint8), 8, 8, True)
        with pytest.raises(ValueError, match="channels"):
            preprocessing.preprocess("vgg", tf.zeros([9, 9, 4], tf.uint8), 8, 8, False)
