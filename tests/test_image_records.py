"""Image files as people have them, one by one: copied as they are, or named and said why not."""

import io
import os

import numpy as np
import pytest
from PIL import Image, ImageOps
from skimage import data as photographs
from test_orientation import exif, jpeg
from toy_records import encode

from slim_mp.compat import tf
from slim_mp.conversion.image_records import ImageRecords, spread_evenly
from slim_mp.data.image_files import ImageFiles
from slim_mp.errors import DataError
from slim_mp.preprocessing import decoding
from slim_mp.preprocessing.orientation import orientation_of, upright

PHOTOGRAPH = photographs.chelsea()[:60, :81]


def animation():
    file = io.BytesIO()
    frames = [Image.fromarray(PHOTOGRAPH), Image.fromarray(255 - PHOTOGRAPH)]
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    return file.getvalue()


def interlaced():
    file = io.BytesIO()
    Image.fromarray(PHOTOGRAPH).save(file, "JPEG", progressive=True)
    return file.getvalue()


def with_field(encoded, offset, value):
    """A file in which one byte is another."""
    return encoded[:offset] + bytes([value]) + encoded[offset + 1 :]


# Name of the file, its bytes, and the format of the record.
USABLE = {
    "jpeg": ("a b.jpg", encode(PHOTOGRAPH, "JPEG"), b"jpg"),
    "progressive jpeg": ("p.jpeg", interlaced(), b"jpg"),
    "grey jpeg": ("grau.JPG", encode(PHOTOGRAPH, "JPEG", "L"), b"jpg"),
    "cmyk jpeg": ("druck.jpg", encode(PHOTOGRAPH, "JPEG", "CMYK"), b"jpg"),
    "jpeg on its side": ("telefon.jpg", jpeg(exif(6)), b"jpg"),
    "png called jpg": ("Übung 1, 花.jpg", encode(PHOTOGRAPH), b"png"),
    "16-bit png": ("16.png", encode(PHOTOGRAPH[..., 0].astype(np.uint16) * 257), b"png"),
    "palette png": ("palette.png", encode(PHOTOGRAPH, mode="P"), b"png"),
    "rgba png": ("rgba.png", encode(PHOTOGRAPH, mode="RGBA"), b"png"),
    "animated gif": ("lauf.gif", animation(), b"gif"),
    "bmp": ("x.bmp", encode(PHOTOGRAPH, "BMP"), b"bmp"),
    "grey bmp": ("g.bmp", encode(PHOTOGRAPH, "BMP", "L"), b"bmp"),
    "palette bmp": ("p.bmp", encode(PHOTOGRAPH, "BMP", "P"), b"bmp"),
    "1x1": ("1.png", encode(PHOTOGRAPH[:1, :1]), b"png"),
    "20000x100": ("lang.png", encode(np.zeros([100, 20_000], np.uint8)), b"png"),
}
BAD = {
    "empty": (b"", "is empty"),
    "text": (b"an image was meant to be here", "is no image, whatever its name says"),
    "web page": (b"<html>404</html>", "is no image, whatever its name says"),
    "truncated jpeg": (encode(PHOTOGRAPH, "JPEG")[:-100], "JPEG file of .* cut off or damaged"),
    "truncated png": (encode(PHOTOGRAPH)[:-100], "PNG file of .* cut off or damaged"),
    "truncated gif": (animation()[:300], "GIF file of .* cut off or damaged"),
    "truncated bmp": (encode(PHOTOGRAPH, "BMP")[:-100], "BMP file of .* cut off or damaged"),
    "compressed bmp": (with_field(encode(PHOTOGRAPH, "BMP", "P"), 30, 1), "BMP file of a kind"),
    "black and white bmp": (encode(PHOTOGRAPH, "BMP", "1"), "BMP file of a kind"),
    "bmp of other masks": (with_field(encode(PHOTOGRAPH, "BMP", "RGBA"), 30, 3), "BMP file of a k"),
    "header of a bmp": (b"BM", "BMP file of a kind"),
    "webp": (encode(PHOTOGRAPH, "WEBP"), "is in the format WebP, .* convert it to JPEG or PNG"),
    "tiff": (encode(PHOTOGRAPH, "TIFF"), "the format TIFF, "),
    "jpeg 2000": (encode(PHOTOGRAPH, "JPEG2000"), "the format JPEG 2000, "),
    "heic": (b"\0\0\0\x24ftypheic\0\0\0\0mif1heic" + bytes(50), "the format HEIC, "),
    "avif": (b"\0\0\0\x24ftypavif\0\0\0\0mif1avif" + bytes(50), "the format AVIF, "),
}


@pytest.fixture
def records():
    with ImageRecords(num_workers=2) as records:
        yield records


def write(folder, contents):
    """Writes files; returns the ImageFiles of two classes in turn."""
    paths = []
    for name, content in contents.items():
        paths.append(str(folder / name))
        (folder / name).write_bytes(content)
    labels = tuple(number % 2 for number in range(len(paths)))
    return ImageFiles(tuple(paths), labels, ("böse", "gut"))


def make(records, images, base, order=None):
    """The records of images, as dicts of feature to value."""
    order = range(len(images.paths)) if order is None else order
    examples = []
    for record in records.make(images, order, str(base), lambda: None):
        features = tf.train.Example.FromString(record).features.feature
        examples.append(
            {
                key: (feature.bytes_list.value or feature.int64_list.value)[0]
                for key, feature in features.items()
            }
        )
    return examples


def test_usable_images_are_copied_as_they_are_and_described_right(records, tmp_path):
    images = write(tmp_path, {name: content for name, content, _ in USABLE.values()})
    examples = make(records, images, tmp_path)
    assert len(examples) == len(USABLE)
    for number, (example, (name, content, kind)) in enumerate(
        zip(examples, USABLE.values(), strict=True)
    ):
        image = Image.open(io.BytesIO(content))
        assert example == {
            "image/encoded": content,
            "image/format": kind,
            "image/class/label": number % 2,
            "image/class/text": ("böse", "gut")[number % 2].encode(),
            "image/height": image.height,
            "image/width": image.width,
            "image/filename": name.encode(),
        }
    assert records.num_turned == 1
    assert not records.left_out


def as_pillow_shows(kind):
    if kind == "16-bit png":
        # Pillow would clip these values, not scale them.
        return PHOTOGRAPH[..., :1].repeat(3, axis=-1).astype(int)
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(USABLE[kind][1])))
    return np.asarray(image.convert("RGB"), int)


def test_usable_images_are_read_as_pillow_shows_them():
    with tf.Graph().as_default(), tf.Session() as session:
        encoded = tf.placeholder(tf.string, [])
        image = upright(decoding.decode_image(encoded, 3), orientation_of(encoded))
        for kind, (_, content, _) in USABLE.items():
            found, expected = session.run(image, {encoded: content}), as_pillow_shows(kind)
            assert found.shape == expected.shape, kind
            # TensorFlow decodes JPEG by the quick integer DCT.
            assert np.abs(found - expected).max() <= 5 * ("jpeg" in kind), kind


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_image_is_named_with_what_is_wrong_with_it(records, tmp_path, kind):
    content, problem = BAD[kind]
    name = "schön \x1b 花.jpg" if kind == "text" else "b.jpg"
    images = write(tmp_path, {"a.jpg": USABLE["jpeg"][1], name: content})
    with pytest.raises(DataError, match=problem) as raised:
        make(records, images, tmp_path)
    message = str(raised.value)
    assert message.startswith(repr(str(tmp_path / name)) if kind == "text" else images.paths[1])
    assert message.isprintable() and message.count("\n") == 0
    assert "--max_bad_images" in message


def test_a_file_that_cannot_be_read_is_bad(records, tmp_path):
    images = write(tmp_path, {"a.jpg": USABLE["jpeg"][1], "b.jpg": b""})
    os.remove(images.paths[1])
    os.mkdir(images.paths[1])
    with pytest.raises(DataError, match=r"b\.jpg cannot be read \(Is a directory\)"):
        make(records, images, tmp_path)


def test_bad_images_are_left_out_up_to_a_limit(tmp_path, caplog):
    files = {f"{number:02d}.jpg": USABLE["jpeg"][1] for number in range(12)}
    files |= dict.fromkeys(["03.jpg", "07.jpg", "11.jpg"], b"text")
    images = write(tmp_path, files)
    bad = [images.paths[number] for number in (3, 7, 11)]
    with ImageRecords(2, max_bad_images=3) as records:
        assert len(make(records, images, tmp_path)) == 9
        assert records.left_out == bad
    for number, path in enumerate(bad, start=1):
        assert f"bad image {number} of at most 3: {path} is no image" in caplog.text
    with (
        ImageRecords(2, max_bad_images=2) as records,
        pytest.raises(DataError, match="3 images are bad and at most 2 may be") as raised,
    ):
        make(records, images, tmp_path)
    assert all(path in str(raised.value) for path in bad)


def test_the_same_records_are_made_whatever_the_number_of_workers(tmp_path):
    files = {f"{number}.png": encode(np.full([9, 9], number, np.uint8)) for number in range(50)}
    images = write(tmp_path, files)
    made = []
    for workers in (1, 4):
        with ImageRecords(workers) as records:
            made.append(list(records.make(images, range(50), str(tmp_path), lambda: None)))
    assert made[0] == made[1]


def test_every_part_of_the_order_has_a_share_of_each_class():
    labels = [0] * 60 + [1] * 20 + [2] * 20
    order = spread_evenly(labels)
    assert sorted(order) == list(range(100))
    assert order == spread_evenly(labels)
    assert order != sorted(order)
    for start in range(0, 100, 20):
        counts = np.bincount([labels[index] for index in order[start : start + 20]], minlength=3)
        assert np.abs(counts - [12, 4, 4]).max() <= 2
    # Not the order in which they came, within a class.
    assert [index for index in order if index < 60] != list(range(60))
