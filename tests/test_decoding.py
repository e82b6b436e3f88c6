"""Images of every format against Pillow."""

import io

import numpy as np
import pytest
from PIL import Image
from skimage import data as photographs
from toy_records import encode

from slim_mp.compat import tf
from slim_mp.preprocessing import decoding

PHOTOGRAPH = photographs.chelsea()[:60, :81]
# With the largest difference from Pillow: TensorFlow decodes JPEG by the quick integer DCT.
FORMATS = {
    "jpeg": (encode(PHOTOGRAPH, "JPEG"), 5),
    "grey jpeg": (encode(PHOTOGRAPH, "JPEG", "L"), 5),
    "cmyk jpeg": (encode(PHOTOGRAPH, "JPEG", "CMYK"), 5),
    "png": (encode(PHOTOGRAPH), 0),
    "grey png": (encode(PHOTOGRAPH, mode="L"), 0),
    "grey png with alpha": (encode(PHOTOGRAPH, mode="LA"), 0),
    "palette png": (encode(PHOTOGRAPH, mode="P"), 0),
    "rgba png": (encode(PHOTOGRAPH, mode="RGBA"), 0),
    "16-bit png": (encode(PHOTOGRAPH[..., 0].astype(np.uint16) * 256 + 7), 0),
    "gif": (encode(PHOTOGRAPH, "GIF"), 0),
    "bmp": (encode(PHOTOGRAPH, "BMP"), 0),
    "grey bmp": (encode(PHOTOGRAPH, "BMP", "L"), 0),
    "rgba bmp": (encode(PHOTOGRAPH, "BMP", "RGBA"), 0),
}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", FORMATS)
def test_images_are_decoded_by_their_content(name, channels):
    encoded, tolerance = FORMATS[name]
    with tf.Graph().as_default(), tf.Session() as session:
        image = session.run(decoding.decode_image(tf.constant(encoded), channels))
    expected = Image.open(io.BytesIO(encoded))
    if name == "16-bit png":
        expected = Image.fromarray(PHOTOGRAPH[..., 0])
    expected = np.asarray(expected.convert("RGB").convert("L" if channels == 1 else "RGB"), int)
    difference = np.abs(image - expected.reshape(image.shape))
    assert image.dtype == np.uint8 and image.shape == (60, 81, channels)
    # Pillow rounds the weights of the luma to 16 bits.
    assert difference.max() <= tolerance + (channels == 1)
    assert difference.mean() <= 0.3 * tolerance + 0.02 * (channels == 1)
