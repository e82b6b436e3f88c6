"""Small sets of image files whose examples can be told apart, as those of toy_records."""

from toy_records import plain_image

from slim_mp import data


def image_set(folder, count, num_classes=10, contents=None):
    """Writes image n as a plain one of grey n and label n % num_classes; returns the `Dataset`.

    Args:
      folder: where to.
      count: an int.
      num_classes: an int.
      contents: dict of number to the bytes of a file, for others than plain images.
    """
    folder.mkdir(exist_ok=True)
    paths = [folder / f"grün {number:03d}.png" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_bytes((contents or {}).get(number) or plain_image(number))
    return data.Dataset(
        name="toy",
        split="train",
        files=(),
        examples_per_file=(count,),
        num_bytes=sum(path.stat().st_size for path in paths),
        num_classes=num_classes,
        images=tuple(map(str, paths)),
        labels=tuple(number % num_classes for number in range(count)),
    )
