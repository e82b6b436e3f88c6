"""What follows from a checkpoint where the flags say nothing, and whether they contradict it."""

import dataclasses

from absl import logging

from slim_mp.checkpoints import catalogue, trained_with
from slim_mp.checkpoints.checkpoint_files import read_contents
from slim_mp.checkpoints.identity import Identity, identify
from slim_mp.checkpoints.scopes import split_scopes
from slim_mp.checkpoints.signatures import get_signature, signatures
from slim_mp.errors import CheckpointError, UsageError

EVALUATE, WARM_START, RESUME = "evaluate", "warm start", "resume"
# Of a dataset of 1001 classes the first is the background, as in ImageNet's.
_CLASSES_WITH_BACKGROUND = 1001
_OFFSETS = (0, 1)


@dataclasses.dataclass(frozen=True)
class Known:
    """What is known of a checkpoint.

    Attributes:
      checkpoint: its prefix.
      identity: its `Identity`.
      source: how the other fields are known, for the log; None if nothing but the identity is.
      preprocessing, image_size, labels_offset: what it was trained with, or None.
      label_names: the name of each of its classes, or None.
      published: name of the published checkpoint that it is, or None.
    """

    checkpoint: str
    identity: Identity
    source: str | None = None
    preprocessing: str | None = None
    image_size: int | None = None
    labels_offset: int | None = None
    label_names: tuple | None = None
    published: str | None = None


@dataclasses.dataclass(frozen=True)
class Given:
    """What the flags say; None where they say nothing.

    Attributes:
      model_name, preprocessing, image_size, labels_offset, exclude_scopes: the flags' values.
    """

    model_name: str | None = None
    preprocessing: str | None = None
    image_size: int | None = None
    labels_offset: int | None = None
    exclude_scopes: str | None = None


@dataclasses.dataclass(frozen=True)
class Choices:
    """What a run uses.

    Attributes:
      model_name: the network.
      checkpoint: prefix of the checkpoint to take the weights from, or None on a resume or without
        one.
      labels_offset: is subtracted from the labels.
      preprocessing: a style, or None for the network's own.
      image_size: in pixels, or None for the network's own.
      exclude_scopes: scopes that are not restored, or None.
      notices: lines for the log: what followed from the checkpoint.
      warnings: lines for the log: which flags contradict it.
    """

    model_name: str
    checkpoint: str | None = None
    labels_offset: int = 0
    preprocessing: str | None = None
    image_size: int | None = None
    exclude_scopes: str | None = None
    notices: tuple = ()
    warnings: tuple = ()


def know(checkpoint, entry=None):
    """Gathers what is known of a checkpoint.

    That is what its run wrote beside it, or else what the catalogue says of the published one that
    has its network and number of classes.

    Args:
      checkpoint: its prefix.
      entry: its `catalogue.Entry` if it was given by that name.

    Returns:
      A `Known`.

    Raises:
      CheckpointError: if it cannot be read.
    """
    identity = identify(read_contents(checkpoint))
    facts = trained_with.read(checkpoint)
    if facts and facts.model_name in (*identity.networks, None):
        source = f"what its run wrote to {trained_with.FILE_NAME}"
        return Known(
            checkpoint,
            identity,
            source,
            facts.preprocessing,
            facts.image_size,
            facts.labels_offset,
            facts.label_names,
        )
    if facts:
        logging.warning(
            "%s beside %s is not used: it says model_name %s, but by its variables the checkpoint "
            "holds %s.",
            trained_with.FILE_NAME,
            checkpoint,
            repr(facts.model_name)[:40],
            identity.describe_network(),
        )
    for network in identity.networks:
        entry = entry or catalogue.published_as(network, identity.num_classes, checkpoint)
    if not entry:
        return Known(checkpoint, identity)
    source = f"the published {entry.name}"
    return Known(
        checkpoint,
        identity,
        source,
        entry.preprocessing,
        entry.image_size,
        published=entry.name,
    )


def choose(given, known, dataset_classes, purpose, default_model):
    """Decides what a run uses: what the flags say, else what follows from the checkpoint.

    Args:
      given: a `Given`.
      known: a `Known`, or None without a checkpoint.
      dataset_classes: classes of the dataset, a background class among them.
      purpose: EVALUATE, WARM_START or RESUME.
      default_model: the network where neither says one.

    Returns:
      `Choices`.

    Raises:
      CheckpointError: if the checkpoint's network cannot be told, or its head cannot be evaluated
        on the dataset.
      UsageError: if the labels offset contradicts the head.
    """
    as_given = Choices(
        given.model_name or default_model,
        known.checkpoint if known and purpose != RESUME else None,
        given.labels_offset or 0,
        given.preprocessing,
        given.image_size,
        given.exclude_scopes,
    )
    if known is None:
        return as_given
    model = given.model_name or _network(known)
    if model not in known.identity.networks:
        return dataclasses.replace(as_given, warnings=(_other_network(model, known),))
    offset = _labels_offset(given, known, model, dataset_classes)
    if purpose == EVALUATE:
        _check_head(known, dataset_classes, offset)
    choices = dataclasses.replace(
        as_given,
        model_name=model,
        labels_offset=offset,
        preprocessing=given.preprocessing or known.preprocessing,
        image_size=known.image_size if given.image_size is None else given.image_size,
        notices=(_followed(given, known, model, offset),),
        warnings=tuple(_contradictions(given, known)),
    )
    if purpose == WARM_START:
        return _leave_out_head(choices, known, dataset_classes - offset)
    return choices


def _network(known):
    networks = known.identity.networks
    if len(networks) == 1:
        return networks[0]
    raise CheckpointError(
        f"Which network {known.checkpoint} is of cannot be told: "
        f"{known.identity.describe_network()}. Give --model_name, one of: "
        f"{', '.join(networks or signatures())}."
    )


def _other_network(model, known):
    return (
        f"--model_name={model}, but by its variables {known.checkpoint} holds "
        f"{known.identity.describe_network()}."
    )


def _labels_offset(given, known, model, dataset_classes):
    head = known.identity.num_classes
    if head is None or _excludes_head(given, model):
        return given.labels_offset or 0
    fitting = [offset for offset in _OFFSETS if dataset_classes - offset == head]
    if given.labels_offset is None:
        if known.labels_offset is not None and dataset_classes - known.labels_offset == head:
            return known.labels_offset
        return 1 if fitting == [1] and dataset_classes == _CLASSES_WITH_BACKGROUND else 0
    if fitting and dataset_classes - given.labels_offset != head:
        raise UsageError(
            f"--labels_offset={given.labels_offset} contradicts the checkpoint {known.checkpoint}: "
            f"its head has {head} classes, the dataset {dataset_classes}. Leave the flag out, give "
            f"--labels_offset={fitting[0]}, or train a new head with "
            f"--checkpoint_exclude_scopes={','.join(get_signature(model).head_scopes)}"
        )
    return given.labels_offset


def _excludes_head(given, model):
    scopes = tuple(f"{scope}/" for scope in split_scopes(given.exclude_scopes))
    return any(f"{name}/".startswith(scopes) for name in get_signature(model).head if scopes)


def _check_head(known, dataset_classes, offset):
    head = known.identity.num_classes
    if head is not None and head != dataset_classes - offset:
        raise CheckpointError(
            f"The checkpoint {known.checkpoint} has a head of {head} classes, and the dataset has "
            f"{dataset_classes} (with --labels_offset={offset}): evaluate on the dataset that it "
            "was trained for, or fine-tune it for this one first."
        )


def _followed(given, known, model, offset):
    parts = [] if given.model_name else [f"network {model}"]
    if known.preprocessing and given.preprocessing is None:
        parts.append(f"preprocessing {known.preprocessing}")
    if known.image_size and given.image_size is None:
        parts.append(f"image size {known.image_size}")
    if given.labels_offset is None:
        parts.append(f"labels offset {offset}")
    source = f" ({known.source})" if known.source else ""
    return f"From the checkpoint {known.checkpoint}{source}: {', '.join(parts) or 'nothing'}."


def _contradictions(given, known):
    for name in ("preprocessing", "image_size"):
        value, expected = getattr(given, name), getattr(known, name)
        if None not in (value, expected) and value != expected:
            yield (
                f"{name.replace('_', ' ')} {value} as the flag says, but the checkpoint "
                f"{known.checkpoint} was trained with {expected} ({known.source})."
            )


def _leave_out_head(choices, known, num_classes):
    head = known.identity.num_classes
    if choices.exclude_scopes is not None or head == num_classes:
        return choices
    scopes = ",".join(get_signature(choices.model_name).head_scopes)
    has = "no head" if head is None else f"a head of {head} classes"
    notice = (
        f"The checkpoint has {has} and this run {num_classes} classes, so the head is trained "
        f"anew: --checkpoint_exclude_scopes={scopes}"
    )
    return dataclasses.replace(choices, exclude_scopes=scopes, notices=(*choices.notices, notice))
