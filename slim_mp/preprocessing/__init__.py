"""From the bytes of an image file to the input of a network."""

from slim_mp.preprocessing.styles import (
    PREPROCESSINGS,
    Preprocessing,
    check_crops,
    get_preprocessing,
    preprocess,
    preprocess_encoded,
)

__all__ = [
    "PREPROCESSINGS",
    "Preprocessing",
    "check_crops",
    "get_preprocessing",
    "preprocess",
    "preprocess_encoded",
]
