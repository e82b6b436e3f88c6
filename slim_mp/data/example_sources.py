"""Where the examples of a split come from: the one place that tells the kinds of datasets apart."""

from slim_mp.data.image_streams import ImageFileSource
from slim_mp.data.record_streams import RecordSource


def open_source(dataset, stored=None):
    """Returns the `RecordSource` or `ImageFileSource` of a dataset that has files.

    Args:
      dataset: a `Dataset`.
      stored: an `example_cache.ExampleCache` of it, or None.
    """
    return (ImageFileSource if dataset.images else RecordSource)(dataset, stored)
