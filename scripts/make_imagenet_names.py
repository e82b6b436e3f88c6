"""Writes the names of ImageNet's classes that ship with slim_mp, from WordNet 3.0.

    python scripts/make_imagenet_names.py WORDNET_FOLDER

WORDNET_FOLDER holds WordNet's data.noun (on Debian, /usr/share/wordnet of the package
wordnet-base). An ImageNet class is a noun synset: the digits of its id are the synset's offset in
that file. The ids stay as they are in the file that is there; running it again writes the same
bytes.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))

from slim_mp.data import imagenet_names
from slim_mp.files.output_files import write_whole


def words_of(line):
    """Returns the words of a line of data.noun, as the wndb(5WN) manual page describes it."""
    fields = line.split()
    count = int(fields[3], base=16)
    return [word.replace("_", " ") for word in fields[4 : 4 + 2 * count : 2]]


def main(folder):
    """Replaces the names by those of WordNet."""
    with open(os.path.join(folder, "data.noun"), encoding="ascii") as file:
        # The licence stands above the synsets, indented.
        synsets = {line[:8]: line for line in file if not line.startswith("  ")}
    with open(imagenet_names.PATH, encoding="utf-8") as file:
        ids = [line.split("\t")[0].strip() for line in file]
    names = {wordnet_id: ", ".join(words_of(synsets[wordnet_id[1:]])) for wordnet_id in ids}
    write_whole(imagenet_names.PATH, "".join(f"{key}\t{name}\n" for key, name in names.items()))


if __name__ == "__main__":
    main(sys.argv[1])
