"""Datasets as people have them, and the batches that are made of them."""

from slim_mp.data.batches import evaluation_batches, training_batches
from slim_mp.data.datasets import Dataset, open_dataset
from slim_mp.data.input_config import InputConfig
from slim_mp.data.input_errors import INPUT_ERRORS, explain_input_error

__all__ = [
    "INPUT_ERRORS",
    "Dataset",
    "InputConfig",
    "evaluation_batches",
    "explain_input_error",
    "open_dataset",
    "training_batches",
]
