"""Which kind of file holds an image, by what it begins with, and which ones TensorFlow misreads."""

JPEG, PNG, GIF, BMP = "JPEG", "PNG", "GIF", "BMP"
# What every supported TensorFlow decodes; some decode WebP too.
READABLE = (JPEG, PNG, GIF, BMP)

_STARTS = {
    b"\xff\xd8\xff": JPEG,
    b"\x89PNG\r\n\x1a\n": PNG,
    b"GIF87a": GIF,
    b"GIF89a": GIF,
    b"BM": BMP,
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"\0\0\0\x0cjP  ": "JPEG 2000",
    b"\xff\x0a": "JPEG XL",
    b"\0\0\0\x0cJXL ": "JPEG XL",
    b"8BPS": "Photoshop",
    b"%PDF": "PDF",
}
# Brands of ISO base media files (ISO/IEC 23008-12), which stand after their length and "ftyp".
_BRANDS = {
    b"heic": "HEIC",
    b"heix": "HEIC",
    b"heim": "HEIC",
    b"hevc": "HEIC",
    b"mif1": "HEIF",
    b"msf1": "HEIF",
    b"avif": "AVIF",
    b"avis": "AVIF",
}
# Offsets of fields of a BMP file, and values of them (BITMAPINFOHEADER of the Windows SDK).
_BMP_BITS, _BMP_COMPRESSION, _BMP_MASKS = slice(28, 30), slice(30, 34), slice(54, 66)
_BMP_UNCOMPRESSED, _BMP_BIT_FIELDS = 0, 3
_BMP_USUAL_MASKS = bytes.fromhex("0000ff00 00ff0000 ff000000")


def kind_of(encoded):
    """Tells what an image file is.

    Args:
      encoded: its bytes, or the first 32 of them.

    Returns:
      One of `READABLE`, the name of another format, or None for what is no known image.
    """
    if encoded[4:8] == b"ftyp":
        return _BRANDS.get(encoded[8:12])
    if encoded[:4] == b"RIFF" and encoded[8:12] == b"WEBP":
        return "WebP"
    return next((kind for start, kind in _STARTS.items() if encoded.startswith(start)), None)


def problem_of(encoded):
    """Says why an image file cannot be used, as far as that can be told without decoding it.

    Args:
      encoded: its bytes.

    Returns:
      None, or the rest of a sentence that begins with the file.
    """
    if not encoded:
        return "is empty"
    kind = kind_of(encoded)
    if kind is None:
        return "is no image, whatever its name says"
    if kind not in READABLE:
        return f"is in the format {kind}, which cannot be read: convert it to JPEG or PNG"
    if kind == BMP and not _is_plain_bmp(encoded):
        return (
            "is a BMP file of a kind that is misread (compressed, or few bits): convert it to PNG"
        )
    return None


def _is_plain_bmp(encoded):
    """Whether a BMP file is not of the kinds that TensorFlow refuses, or reads as another."""
    bits, compression = (
        int.from_bytes(encoded[field], "little") for field in (_BMP_BITS, _BMP_COMPRESSION)
    )
    if compression == _BMP_BIT_FIELDS:
        return bits == 32 and encoded[_BMP_MASKS] == _BMP_USUAL_MASKS
    return compression == _BMP_UNCOMPRESSED and bits in (8, 24, 32)
