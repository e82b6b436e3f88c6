"""Record files as TF-Slim's dataset tools name them: which are there, and which make up a split."""

import collections
import dataclasses
import fnmatch
import os
import re

from slim_mp.compat import tf
from slim_mp.errors import DataError
from slim_mp.files.input_files import few, reading


@dataclasses.dataclass(frozen=True)
class _Convention:
    """How a dataset tool names its files; `%s` in a pattern stands for the split."""

    patterns: tuple
    splits: tuple | None = None
    num_classes: int | None = None


# The name that research/slim's programs read by, unless they are told another.
_SLIMS_DEFAULT = "imagenet"
_CONVENTIONS = {
    "digits": _Convention(("digits_%s.tfrecord",), ("train", "validation"), 10),
    "flowers": _Convention(("flowers_%s_*.tfrecord",), ("train", "validation"), 5),
    "cifar10": _Convention(("cifar10_%s.tfrecord",), ("train", "test"), 10),
    "mnist": _Convention(("mnist_%s.tfrecord",), ("train", "test"), 10),
    "visualwakewords": _Convention(("%s.record-*-of-*",), ("train", "val"), 2),
    "imagenet": _Convention(("%s-*",), ("train", "validation"), 1001),
}

_SHARDS_WITHOUT_A_NAME = {
    "visualwakewords": re.compile(r"(train|val)\.record-\d+-of-\d+"),
    _SLIMS_DEFAULT: re.compile(r"(train|validation)-\d+-of-\d+"),
}

_NUMBERED = re.compile(r"(.*?)([0-9]+)-of-([0-9]+)(.*)")


def _convention(name, file_pattern=None):
    if file_pattern:
        return _Convention((file_pattern,))
    if name in _CONVENTIONS:
        return _CONVENTIONS[name]
    return _Convention((f"{name}_%s_*.tfrecord", f"{name}_%s.tfrecord", "%s-*-of-*"))


def known_classes(name, file_pattern=None):
    """Returns the number of classes that a set has by its name, or None for an unknown name."""
    return _convention(name, file_pattern).num_classes


def evaluation_split(name):
    """Returns the split of a set that is not for training, by the set's name."""
    return (_convention(name).splits or (None, "validation"))[1]


def is_read(name, split, file):
    """Returns whether a file of this name is one of a split, as `find_files` sees it.

    Args:
      name: the name of the set.
      split: the split.
      file: the name of the file.
    """
    convention = _convention(name)
    patterns = [pattern.replace("%s", split) for pattern in convention.patterns]
    return split in (convention.splits or (split,)) and any(
        fnmatch.fnmatchcase(file, pattern) for pattern in patterns
    )


def are_there(name, directory, file_pattern=None):
    """Returns whether a folder holds record files of a set, for any split.

    Args:
      name: the name of the set, or None for any whose files cannot be anything else.
      directory: the folder.
      file_pattern: as for `find_files`.

    Raises:
      DataError: if the folder cannot be read.
    """
    if name is None and not file_pattern:
        return bool(_sets_in(directory))
    return bool(_splits_that_exist(directory, _convention(name, file_pattern)))


def recognise(directory):
    """Tells which set the record files of a folder are.

    Args:
      directory: the folder.

    Returns:
      Its name; that of slim's default where files are named so, besides those of other sets.

    Raises:
      DataError: if there are no record files, those of several sets, or the folder cannot be read.
    """
    names = _sets_in(directory)
    if _SLIMS_DEFAULT in names or (not names and are_there(_SLIMS_DEFAULT, directory)):
        return _SLIMS_DEFAULT
    if len(names) == 1:
        return names[0]
    if names:
        raise DataError(f"{directory} holds record files of {few(names)}: give --dataset_name.")
    patterns = [pattern for row in _CONVENTIONS.values() for pattern in row.patterns]
    raise DataError(
        f"{directory} holds no dataset: there are neither record files "
        f"{', '.join(patterns).replace('%s', 'SPLIT')} or NAME_SPLIT*.tfrecord nor sub-folders "
        f"with images; {_listing(directory)}. Choose another --dataset_dir, or say what other "
        "record files are called by --dataset_name or --file_pattern."
    )


def find_files(name, split, directory, file_pattern=None):
    """Finds the record files of a split.

    Args:
      name: the name of the set.
      split: the split.
      directory: the folder.
      file_pattern: a pattern in place of those of the name; `%s` stands for the split.

    Returns:
      The paths, a sorted tuple of str.

    Raises:
      DataError: if there is no such split, no file of it, or only a part of them by their names;
        the message says what there is.
    """
    convention = _convention(name, file_pattern)
    if convention.splits and split not in convention.splits:
        raise DataError(
            f"The dataset '{name}' has no split '{split}'; its splits are "
            f"{' and '.join(convention.splits)} (--dataset_split_name)."
            + _other_sets(name, split, directory)
        )
    for pattern in convention.patterns:
        files = _glob(directory, pattern, split)
        if files and not file_pattern:
            _check_shards(files, directory)
        if files:
            return files
    wanted = " or ".join(pattern.replace("%s", split) for pattern in convention.patterns)
    there = few(_splits_that_exist(directory, convention))
    nothing = f"nor sub-folders with images; {_listing(directory)}"
    raise DataError(
        f"{directory} has no files {wanted} for the split '{split}' of '{name}'"
        + (f"; there are files of the splits: {there}" if there else f", {nothing}")
        + ". Choose another --dataset_split_name, --dataset_dir, --dataset_name or --file_pattern."
        + _other_sets(name, split, directory)
    )


def missing_shards(names):
    """Finds out which files are missing by the names of those that are there.

    Args:
      names: names such as a-00000-of-00003.

    Returns:
      The first few names that should be among them and are not, a list.
    """
    missing = []
    for (before, after), by_total in _series(names).items():
        for total, numbers in by_total.items():
            width = len(min(numbers, key=len))
            # Any total can be written in a name; the first gap is among so many numbers.
            wanted = (f"{n:0{width}d}" for n in range(min(int(total), len(numbers) + 1)))
            gaps = [number for number in wanted if number not in numbers]
            missing += [f"{before}{number}-of-{total}{after}" for number in gaps]
    return missing


def _series(names):
    """The numbers in numbered names, as text: (before, after) -> total -> numbers."""
    series = collections.defaultdict(lambda: collections.defaultdict(set))
    for found in filter(None, map(_NUMBERED.fullmatch, names)):
        before, number, total, after = found.groups()
        series[before, after][total].add(number)
    return series


def _check_shards(files, directory):
    """Refuses a part of a set, which would pass for the whole, and two sets in one."""
    names = [os.path.basename(path) for path in files]
    missing = missing_shards(names)
    if missing:
        raise DataError(
            f"{directory} holds {few(names[:1])} but not all files that belong to it; missing: "
            f"{few(missing)}. Copy or write the set again; to read only what is there, give "
            "--file_pattern."
        )
    for (before, after), by_total in _series(names).items():
        if len(by_total) > 1:
            of_total = [f"{before}*-of-{total}{after}" for total in sorted(by_total)]
            raise DataError(
                f"{directory} holds two sets in one, {few(of_total)}; remove one, or choose by "
                "--file_pattern."
            )


def _names_in(folder):
    with reading(folder):
        return sorted(tf.io.gfile.listdir(folder))


def _glob(directory, pattern, split):
    # Not gfile.glob: the name of the folder itself may hold brackets.
    folder, pattern = os.path.split(os.path.join(directory, pattern.replace("%s", split)))
    names = _names_in(folder) if tf.io.gfile.isdir(folder) else ()
    paths = [os.path.join(folder, name) for name in names if fnmatch.fnmatchcase(name, pattern)]
    return tuple(path for path in paths if not tf.io.gfile.isdir(path))


def _splits_that_exist(directory, convention):
    """The splits whose files are there, read off the file names."""
    for pattern in convention.patterns:
        before, _, after = os.path.basename(pattern).partition("%s")
        end = after.split("*")[0]
        rests = [os.path.basename(path)[len(before) :] for path in _glob(directory, pattern, "*")]
        splits = {rest.split(end)[0] if end else rest for rest in rests}
        if convention.splits:
            splits &= set(convention.splits)
        if splits:
            return sorted(splits)
    return []


def _named_sets(directory, split="train"):
    """The names in front of the split in the names of the record files of a folder."""
    pattern = re.compile(rf"(.+?)_(?:train|validation|test|{re.escape(split)})(_.*)?\.tfrecord")
    found = filter(None, map(pattern.fullmatch, _names_in(directory)))
    return {match[1] for match in found if match[1].isprintable()}


def _sets_in(directory):
    """The sets that a folder surely holds record files of; train-notes.txt are none."""
    names = _named_sets(directory)
    for name, form in _SHARDS_WITHOUT_A_NAME.items():
        if any(form.fullmatch(file) for file in _names_in(directory)):
            names.add(name)
    return sorted(names)


def _other_sets(name, split, directory):
    """A sentence on which other sets a folder holds, by the names of their files; else nothing."""
    names = sorted(_named_sets(directory, split) - {name})
    if len(names) == 1:
        return f" The folder holds files of '{names[0]}': --dataset_name={names[0]} reads them."
    return f" The folder holds files of {few(names)}: give --dataset_name." if names else ""


def _listing(directory):
    names = _names_in(directory)
    return f"the folder holds {few(names)}" if names else "the folder is empty"
