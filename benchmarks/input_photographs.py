"""JPEG files of the size of ImageNet's, from photographs that packages bring along."""

import io

from PIL import Image
from skimage import data as photographs
from sklearn.datasets import load_sample_images

WIDTH, HEIGHT = 500, 375


def jpeg_files(quality):
    """Makes the files.

    Args:
      quality: of the JPEG files, as Pillow counts it.

    Returns:
      A list of bytes: eight photographs of 500 by 375 pixels.
    """
    images = [
        photographs.astronaut(),
        photographs.chelsea(),
        photographs.coffee(),
        photographs.hubble_deep_field(),
        photographs.immunohistochemistry(),
        photographs.rocket(),
        *load_sample_images().images,
    ]
    return [_jpeg(Image.fromarray(image), quality) for image in images]


def _jpeg(image, quality):
    width = min(image.width, image.height * WIDTH // HEIGHT)
    height = width * HEIGHT // WIDTH
    left, top = (image.width - width) // 2, (image.height - height) // 2
    part = image.crop((left, top, left + width, top + height))
    file = io.BytesIO()
    part.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS).save(file, "JPEG", quality=quality)
    return file.getvalue()
