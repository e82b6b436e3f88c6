"""Where the examples of a split come from: the one place that tells the kinds of datasets apart."""

from slim_mp.data.image_streams import ImageFileSource
from slim_mp.data.record_streams import RecordSource


def open_source(dataset, stored=None, may_leave_out=False):
    """Returns the `RecordSource` or `ImageFileSource` of a dataset that has files.

    Args:
      dataset: a `Dataset`.
      stored: an `example_cache.ExampleCache` of it, or None.
      may_leave_out: as for `RecordSource`; an image file that cannot be read always fails alone.
    """
    if dataset.images:
        return ImageFileSource(dataset, stored)
    return RecordSource(dataset, stored, may_leave_out)
