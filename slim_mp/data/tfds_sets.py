"""Datasets that TensorFlow Datasets (TFDS) has prepared on this machine; nothing is downloaded.

TFDS keeps its own account of files, splits, classes and features beside the records, which its
package reads; the records themselves are then read as all others.
"""

import dataclasses
import os
import re

import numpy as np

from slim_mp.data.image_folders import sub_folders
from slim_mp.errors import DataError, RequirementError, reason
from slim_mp.files.input_files import few, shown

PREFIX = "tfds:"

_ACCOUNT = "dataset_info.json"
# Features of most sets that do not say which of theirs are for supervised learning.
_USUAL_KEYS = ("image", "label")


@dataclasses.dataclass(frozen=True)
class TfdsFiles:
    """The record files of a split.

    Attributes:
      paths: their paths, in order.
      num_examples: how many examples TFDS has written to them.
      label_names: the name of each class.
      image_key: the feature of a record that holds the encoded image.
      label_key: the feature of a record that holds the label.
    """

    paths: tuple
    num_examples: int
    label_names: tuple
    image_key: str
    label_key: str


def find_files(name, split, data_dir):
    """Finds the files of a split of a prepared dataset.

    Args:
      name: `tfds:NAME`, and behind that, where there are several, `/CONFIG` or `:VERSION`.
      split: the split.
      data_dir: the folder that holds the folder NAME, as for tfds.load; or that with the records.

    Returns:
      The `TfdsFiles`.

    Raises:
      RequirementError: if the package tensorflow-datasets is missing.
      DataError: if there is no such dataset or split in the folder, or it is none of images and
        classes in TFRecord files.
    """
    tfds = _import_tfds()
    folder = _folder_of(name.removeprefix(PREFIX), data_dir)
    info, splits = _read_account(folder, tfds)
    _check_name(info, name, folder)
    if split not in splits:
        raise DataError(
            f"The dataset '{name}' in {folder} has no split {split!r}; its splits are: "
            f"{few(sorted(splits))} (--dataset_split_name)."
        )
    if info.file_format.value != "tfrecord":
        raise DataError(
            f"The files of {folder} are of the format {info.file_format.value}; prepare the "
            "dataset with file_format='tfrecord'."
        )
    image_key, label_key = _keys(info, folder, tfds)
    return TfdsFiles(
        splits[split],
        info.splits[split].num_examples,
        tuple(info.features[label_key].names),
        image_key,
        label_key,
    )


def _read_account(folder, tfds):
    """The DatasetInfo, and a dict of split to the paths of its files."""
    try:
        info = tfds.builder_from_directory(folder).info
        return info, {key: tuple(map(os.fspath, info.splits[key].filepaths)) for key in info.splits}
    except Exception as error:  # of JSON, protobuf, the file system: whatever its files hold
        raise DataError(
            f"{folder} is not a dataset that TFDS can read ({reason(error)}); prepare it again, "
            "with tfds.load or tfds build."
        ) from error


def _import_tfds():
    try:
        import tensorflow_datasets
    except ImportError as error:
        raise RequirementError(
            f"--dataset_name={PREFIX}NAME needs the package tensorflow-datasets ({error}): "
            "pip install tensorflow-datasets."
        ) from error
    return tensorflow_datasets


def _check_name(info, name, folder):
    wanted = re.split("[/:]", name.removeprefix(PREFIX))[0]
    if info.name != wanted:
        raise DataError(
            f"{folder} holds the dataset {info.name!r}, not {wanted!r}; give "
            f"--dataset_name={PREFIX}{info.name}, or another --dataset_dir."
        )


def _folder_of(name, data_dir):
    """The folder of the newest version that is prepared; `name` is NAME[/CONFIG][:VERSION]."""
    base, _, version = name.partition(":")
    if os.path.exists(os.path.join(data_dir, _ACCOUNT)):
        return data_dir
    root = os.path.join(data_dir, base)
    fitting = [one for one in _prepared(root) if version in ("", os.path.basename(one))]
    configs = {os.path.dirname(one) for one in fitting}
    if not base or not fitting:
        raise DataError(
            f"{data_dir} has no prepared dataset {shown(name)}; its folders are: "
            f"{few(sub_folders(data_dir)) or 'none'}. Give the data_dir of tfds.load "
            f"(--dataset_dir) and a name there (--dataset_name={PREFIX}NAME)."
        )
    if len(configs) > 1:
        raise DataError(
            f"{root} has several configs: {few(sorted(configs))}; name one, as in "
            f"--dataset_name={PREFIX}{base}/{min(configs)}."
        )
    return os.path.join(root, max(fitting, key=_version))


def _prepared(root):
    """VERSION or CONFIG/VERSION of what is prepared; tfds calls unfinished work by other names."""
    if not os.path.isdir(root):
        return []
    one_deep = sub_folders(root)
    two_deep = [
        os.path.join(config, version)
        for config in one_deep
        for version in sub_folders(os.path.join(root, config))
    ]
    return [
        path
        for path in (*one_deep, *two_deep)
        if _version(path) and os.path.exists(os.path.join(root, path, _ACCOUNT))
    ]


def _version(path):
    """The numbers of a version such as 3.0.1, for comparison; nothing if it is none."""
    match = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", os.path.basename(path))
    return tuple(map(int, match.groups())) if match else ()


def _keys(info, folder, tfds):
    """The features that hold the image and the label."""
    features = dict(info.features)
    keys = info.supervised_keys
    if not (isinstance(keys, tuple) and len(keys) == 2 and set(keys) <= features.keys()):
        keys = _USUAL_KEYS
    image, label = (features.get(key) for key in keys)
    # Images of floats are kept as the bytes of their numbers.
    is_image = isinstance(image, tfds.features.Image) and image.np_dtype in (np.uint8, np.uint16)
    if not (is_image and isinstance(label, tfds.features.ClassLabel)):
        kinds = [f"{key} ({type(feature).__name__})" for key, feature in sorted(features.items())]
        raise DataError(
            f"{folder} is not a dataset of images with a class each: it must have an Image of "
            f"uint8 or uint16 and a ClassLabel, but its features are: {few(kinds)}."
        )
    return keys
