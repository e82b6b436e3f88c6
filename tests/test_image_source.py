"""Windows of image files against the whole image, and images that are out of the common."""

import io

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image
from skimage import data as photographs

from slim_mp import preprocessing
from slim_mp.compat import tf
from slim_mp.preprocessing import decoding, image_source

PHOTOGRAPH = photographs.coffee()
SIZE = 20


def encode(image, kind="JPEG", mode=None, **options):
    image = Image.fromarray(image)
    file = io.BytesIO()
    (image.convert(mode) if mode else image).save(file, kind, **options)
    return file.getvalue()


class Graph:
    """Functions of an image file, each built once."""

    def __init__(self):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.session = tf.Session()
            self.encoded = tf.placeholder(tf.string, [])
            self.numbers = tf.placeholder(tf.int32, [4])
            self.seed = tf.constant([3, 5])
            source = image_source.from_file(self.encoded, 3)
            self.size = [source.height, source.width]
            window = image_source.Window(*tf.unstack(self.numbers))
            self.window = source.read(window)
            window = image_source.widened(window, source.width)
            self.wide_place = [window.top, window.left, window.height, window.width]
            self.wide_window = source.read(window)
            self.whole = decoding.decode_image(self.encoded, 3)
            self.results = {}

    def run(self, result, encoded, numbers=(0, 0, 1, 1)):
        return self.session.run(result, {self.encoded: encoded, self.numbers: numbers})

    def result(self, style, is_training, decoded_whole=False, channels=3, size=SIZE):
        """The result of a style, with the window decoded alone or the image as a whole."""
        key = (style, is_training, decoded_whole, channels, size)
        if key not in self.results:
            args = (size, size, is_training, self.seed)
            with self.graph.as_default():
                image = decoding.decode_image(self.encoded, channels)
                self.results[key] = (
                    preprocessing.preprocess(style, image, *args)
                    if decoded_whole
                    else preprocessing.preprocess_encoded(style, self.encoded, channels, *args)
                )
        return self.results[key]

    def preprocess(self, style, encoded, is_training, **choices):
        return self.run(self.result(style, is_training, **choices), encoded)


@pytest.fixture(scope="module")
def graph():
    return Graph()


JPEG_OPTIONS = [
    {"subsampling": "4:2:0"},
    {"subsampling": "4:2:2"},
    {"subsampling": "4:4:4"},
    {"progressive": True},
    {"mode": "L"},
    {"mode": "CMYK"},
]


@settings(max_examples=150, deadline=None)
@given(
    size=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    corners=st.tuples(*[st.floats(0, 1, exclude_max=True)] * 4),
    options=st.sampled_from(JPEG_OPTIONS),
)
@example(size=(20, 10), corners=(0.0, 0.0, 0.75, 0.0), options={"subsampling": "4:2:0"})
def test_a_window_of_a_jpeg_is_that_of_the_whole_image(graph, size, corners, options):
    encoded = encode(PHOTOGRAPH[100 : 100 + size[0], 200 : 200 + size[1]], **options)
    top, left = int(corners[0] * size[0]), int(corners[1] * size[1])
    height = 1 + int(corners[2] * (size[0] - top))
    width = 1 + int(corners[3] * (size[1] - left))
    window, whole, wide, place = graph.run(
        [graph.window, graph.whole, graph.wide_window, graph.wide_place],
        encoded,
        (top, left, height, width),
    )
    np.testing.assert_array_equal(window, whole[top : top + height, left : left + width])
    assert place[0] == top and place[2] == height
    assert left - 1 <= place[1] <= left and 0 <= place[3] - width <= 2
    np.testing.assert_array_equal(wide, whole[top : top + height, place[1] : place[1] + place[3]])


@settings(max_examples=40, deadline=None)
@given(
    size=st.tuples(st.integers(1, 90), st.integers(1, 90)),
    style=st.sampled_from(sorted(preprocessing.PREPROCESSINGS)),
    is_training=st.booleans(),
)
def test_a_decoded_crop_gives_what_the_decoded_image_gives(graph, size, style, is_training):
    encoded = encode(PHOTOGRAPH[100 : 100 + size[0], 200 : 200 + size[1]])
    found = graph.preprocess(style, encoded, is_training)
    expected = graph.preprocess(style, encoded, is_training, decoded_whole=True)
    np.testing.assert_array_equal(found, expected)


UNUSUAL = {
    "16-bit png": encode(PHOTOGRAPH[:50, :60, 0].astype(np.uint16) * 256 + 7, "PNG"),
    "grey jpeg": encode(PHOTOGRAPH[:50, :60], mode="L"),
    "palette png": encode(PHOTOGRAPH[:50, :60], "PNG", "P"),
    "cmyk jpeg": encode(PHOTOGRAPH[:50, :60], mode="CMYK"),
    "gif": encode(PHOTOGRAPH[:50, :60], "GIF", "P"),
    "one pixel": encode(PHOTOGRAPH[:1, :1]),
    "one pixel png": encode(PHOTOGRAPH[:1, :1], "PNG"),
    "wide": encode(np.tile(PHOTOGRAPH[:100], [1, 34, 1])[:, :20000], quality=50),
    "wide png": encode(np.tile(PHOTOGRAPH[:100, :200], [1, 100, 1]), "PNG"),
    "high": encode(np.tile(PHOTOGRAPH[:, :100], [50, 1, 1])[:20000], quality=50),
}


@pytest.mark.parametrize("kind", UNUSUAL)
@pytest.mark.parametrize("style", preprocessing.PREPROCESSINGS)
def test_unusual_images_are_preprocessed(graph, style, kind):
    for channels, is_training in ((3, True), (3, False), (1, False)):
        args = (style, UNUSUAL[kind], is_training)
        found = graph.preprocess(*args, channels=channels)
        assert found.shape == (SIZE, SIZE, channels) and np.isfinite(found).all()
        expected = graph.preprocess(*args, decoded_whole=True, channels=channels)
        np.testing.assert_array_equal(found, expected)


def test_an_animation_shows_its_first_frame(graph):
    frames = [Image.fromarray(PHOTOGRAPH[n : n + 30, :40]).convert("P") for n in (0, 100, 200)]
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    first = np.asarray(frames[0].convert("RGB"))
    window = graph.run(graph.window, file.getvalue(), (2, 3, 20, 30))
    assert np.abs(window.astype(int) - first[2:22, 3:33]).max() <= 8


# By Pillow's names; 1 is upright.
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@pytest.mark.parametrize("orientation", [1, *TURNS])
def test_a_photograph_is_read_upright(graph, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    encoded = encode(PHOTOGRAPH[:40, :64], exif=exif)
    expected = graph.run(graph.whole, encoded)
    if orientation in TURNS:
        expected = np.asarray(Image.fromarray(expected).transpose(TURNS[orientation]))
    size, window = graph.run([graph.size, graph.window], encoded, (5, 7, 11, 13))
    assert tuple(size) == expected.shape[:2]
    np.testing.assert_array_equal(window, expected[5:16, 7:20])


def test_a_jpeg_that_was_cut_short_fails_wherever_the_window_lies(graph):
    encoded = encode(PHOTOGRAPH)
    for length in (len(encoded) - 2, len(encoded) - 1, len(encoded) // 2):
        with pytest.raises(tf.errors.InvalidArgumentError):
            graph.run(graph.window, encoded[:length], (0, 0, 8, 8))


def test_bytes_after_the_end_of_a_jpeg_do_no_harm(graph):
    encoded = encode(PHOTOGRAPH[:40, :60])
    for more in (b"\0", b"\r\n", b"maker notes"):
        window = graph.run(graph.window, encoded + more, (5, 7, 11, 13))
        np.testing.assert_array_equal(window, graph.run(graph.window, encoded, (5, 7, 11, 13)))


def test_a_window_is_decoded_alone(graph):
    """By the operation that decodes windows, not by that for the whole image."""
    encoded = encode(PHOTOGRAPH)
    run_metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.SOFTWARE_TRACE)
    graph.session.run(
        graph.window,
        {graph.encoded: encoded, graph.numbers: (100, 100, 50, 50)},
        options=options,
        run_metadata=run_metadata,
    )
    ran = {n.timeline_label for d in run_metadata.step_stats.dev_stats for n in d.node_stats}
    assert any("DecodeAndCropJpeg" in label for label in ran)
    assert not any("DecodeImage" in label for label in ran)


def largest_tensor(graph, result, encoded):
    """Bytes of the largest tensor that any operation makes while a result is computed."""
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.SOFTWARE_TRACE)
    graph.session.run(result, {graph.encoded: encoded}, options=options, run_metadata=metadata)
    return max(
        output.tensor_description.allocation_description.requested_bytes
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
        for output in node.output
    )


@pytest.mark.parametrize("kind", ["wide", "wide png", "high"])
@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("style", preprocessing.PREPROCESSINGS)
def test_the_memory_for_an_extreme_image_is_bounded(graph, style, is_training, kind):
    size = 224
    result = graph.result(style, is_training, size=size)
    most = largest_tensor(graph, result, UNUSUAL[kind])
    # The lines that the result needs, in float32; resized to a shorter side of 256 the image would
    # take three times as much.
    assert 12 * size * size <= most <= 12 * size * 20000
