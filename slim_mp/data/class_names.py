"""The classes of a network in the numbers and the names of its dataset, for all that is shown."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Classes:
    """The classes that a network tells apart.

    A labels offset drops the first labels of a dataset, so that class 0 of the network is the label
    `offset` of the dataset. What a user reads is always the dataset's label.

    Attributes:
      count: number of classes of the network.
      offset: the labels offset.
      names: name of each label of the dataset, or None.
    """

    count: int
    offset: int = 0
    names: tuple | None = None

    @classmethod
    def of(cls, dataset, labels_offset):
        """Returns the `Classes` of a network for a `data.Dataset`."""
        return cls(dataset.num_classes - labels_offset, labels_offset, dataset.label_names)

    def label(self, index):
        """Returns the label of the dataset that class `index` of the network stands for."""
        return index + self.offset

    def name(self, index):
        """Returns the name of class `index`, or None if there is none."""
        label = self.label(index)
        return (self.names[label] or None) if self.names and label < len(self.names) else None
