"""Says what is wrong with a record or an image file, outside the graph."""

from slim_mp.compat import tf
from slim_mp.files.input_files import few


def problem_of_record(serialized, dataset, labels_offset, decodes):
    """Says what is wrong with a record.

    Args:
      serialized: the bytes of the record.
      dataset: as for `decoding.parse_example`.
      labels_offset: as for `decoding.parse_example`.
      decodes: a function of the bytes of an image that says whether it can be decoded.

    Returns:
      None, or what is wrong as the rest of a sentence that begins with the record.
    """
    try:
        features = tf.train.Example.FromString(serialized).features.feature
    except Exception:  # protobuf's DecodeError lives in a package that is not a dependency
        return "is not a tf.train.Example; convert the images again"
    image_key, label_key = dataset.image_key, dataset.label_key
    problem = _feature_problem(features, image_key, "bytes_list") or _feature_problem(
        features, label_key, "int64_list"
    )
    if problem:
        return problem
    label = features[label_key].int64_list.value[0]
    encoded = features[image_key].bytes_list.value[0]
    return problem_of_label(label, dataset.num_classes, labels_offset) or problem_of_image(
        encoded, decodes
    )


def _feature_problem(features, key, kind):
    if key not in features:
        there = few(sorted(features), most=20) or "none"
        return f"has no feature {key}; its features are: {there}. Convert the images again"
    found = features[key].WhichOneof("kind")
    if found != kind:
        return f"holds {key} as {found or 'nothing'}; it must be {kind} of one value"
    count = len(getattr(features[key], kind).value)
    return None if count == 1 else f"holds {count} values in {key}; it must be one"


def problem_of_label(label, num_classes, labels_offset):
    """Says what is wrong with a label.

    Args:
      label: an int, before the offset is subtracted.
      num_classes: labels must be below it.
      labels_offset: labels must not be below it.

    Returns:
      None, or the rest of a sentence that begins with the record or the file.
    """
    if labels_offset <= label < num_classes:
        return None
    return (
        f"has the label {label}, but with {num_classes} classes and a labels offset of "
        f"{labels_offset} only {labels_offset} to {num_classes - 1} are possible; correct "
        "--num_classes, labels.txt, --labels_offset or the label"
    )


def problem_of_image(encoded, decodes):
    """Says what is wrong with an image file.

    Args:
      encoded: its bytes.
      decodes: a function of them that says whether they can be decoded.

    Returns:
      None, or the rest of a sentence that begins with the record or the file.
    """
    if decodes(encoded):
        return None
    return (
        f"holds an image of {len(encoded)} bytes that cannot be decoded: it is damaged, or it is "
        "not a JPEG, PNG, GIF or BMP file; replace it or leave it out"
    )
