"""The input of training and evaluation with tf.data: read, shuffle, decode, preprocess, batch.

A training stream is endless. With a seed, example k of it (which record, distorted how) is a
function of the seed and k only, so that a run that stops after k examples goes on with example k.

Memory: the shuffle buffer of records holds at most `record_streams.SHUFFLE_BUFFER_BYTES`, what
tf.data reads ahead by itself `_AUTOTUNED_BYTES`, and two batches wait for the network. With `cache`
the files of the split come on top.
"""

import os

from slim_mp import preprocessing
from slim_mp.compat import tf
from slim_mp.data import synthetic
from slim_mp.data.augmentation import erase
from slim_mp.data.bad_records import BadRecords, filled_up, not_empty
from slim_mp.data.dataset_service import distributed
from slim_mp.data.example_cache import ExampleCache
from slim_mp.data.example_sources import open_source
from slim_mp.data.mixing import mix
from slim_mp.data.rand_augment import rand_augment
from slim_mp.errors import DataError, UsageError

_AUTOTUNED_BYTES = 2**30
_PREFETCHED_BATCHES = 2
# What else than the preprocessing draws from the seed of an example.
_RANDAUGMENT, _ERASING, _MIXING = 1, 2, 3

# No Python branch depends on a tensor here, and to look for one costs a run seconds at its start.
_as_it_is = tf.autograph.experimental.do_not_convert


@_as_it_is
def training_batches(dataset, config, bad_records=None):
    """The endless, shuffled stream of training batches.

    Each epoch is a new permutation of the (shard's) examples. No example is lost between epochs.
    The synthetic set repeats one fixed batch, so that the input costs next to nothing.

    Args:
      dataset: a `Dataset`.
      config: an `InputConfig`.
      bad_records: the `BadRecords` to count in; by default one of its own, of the config's limit.

    Returns:
      A tf.data.Dataset of (images, labels): [batch_size, image_size, image_size, channels] in
      the compute dtype, and int64 [batch_size] in [0, num_classes - labels_offset), or, where the
      augmentation mixes images, float32 [batch_size, num_classes - labels_offset], their shares.

    Raises:
      UsageError: if labels_offset leaves no class, a batch of one image is to be mixed, or the
        dataset service does not answer.
      DataError: if the shard has no example.
    """
    _check_classes(dataset, config)
    _check_mixing(config)
    bad_records = bad_records or BadRecords(config.max_bad_records)
    if _is_synthetic(dataset):
        examples = synthetic.examples(dataset, config, config.batch_size, _training_dtype(config))
        batches = examples.batch(config.batch_size, drop_remainder=True)
    else:
        batches = _training_batches(dataset, config, bad_records)
    batches = batches.map(
        lambda batch: _mixed(batch, dataset, config),
        num_parallel_calls=_threads(config),
        deterministic=config.seed is not None,
    )
    if _is_synthetic(dataset):
        batches = batches.cache().repeat()
    elif config.dataset_service:
        batches = distributed(batches, config.dataset_service)
    return _configured(batches, config, deterministic=config.seed is not None)


@_as_it_is
def evaluation_batches(dataset, config, with_names=False, bad_records=None):
    """Each example of a split exactly once, in the order of the files.

    Shards, the seed and the start of the config are for training only.

    Args:
      dataset: a `Dataset`.
      config: an `InputConfig`.
      with_names: whether the name of each example is wanted.
      bad_records: as for `training_batches`.

    Returns:
      A tf.data.Dataset of (images, labels) as for training, without distortion; the last batch
      is smaller if batch_size does not divide the number of examples, and so is one of which bad
      examples, as many as may be, are left out. With ten crops the images are
      [batch, 10, image_size, image_size, channels]. With names it is of (images, labels, names),
      names string [batch]: the path of an image file; of a record its image/filename or, where it
      has none, FILE#NUMBER, the record file without its folder and the record counted from 0; of a
      synthetic image its number.

    Raises:
      UsageError: if labels_offset leaves no class.
    """
    _check_classes(dataset, config)
    bad_records = bad_records or BadRecords(config.max_bad_records)
    if _is_synthetic(dataset):
        examples = synthetic.examples(dataset, config, dataset.num_examples, config.compute_dtype)
        batches = examples.batch(config.batch_size)
    else:
        batches = _evaluation_batches(dataset, config, bad_records, with_names)
    names = ("image", "label", "name") if with_names else ("image", "label")
    batches = batches.map(lambda batch: tuple(batch[name] for name in names))
    return _configured(batches, config, deterministic=True)


def _training_batches(dataset, config, bad_records):
    """The batches of one worker: dicts of `image`, `label` and `seed`, that of each example."""
    source = _open_source(dataset, config, may_leave_out=bad_records.limit > 0)
    seed = int.from_bytes(os.urandom(4), "little") if config.seed is None else config.seed
    size = _shard_size(source, dataset, config)

    def prepare(position, example):
        # Examples of different shards must not be distorted alike.
        index = position * config.num_shards + config.shard_index
        pair = tf.stack([tf.constant(seed, tf.int64), index])
        number, content = _fetched(source, example)
        encoded, label = source.parse(number, content, config.labels_offset)
        return {"image": _image(encoded, config, pair), "label": label, "seed": pair}

    examples = _numbered(source, size, config, seed)
    if bad_records.limit:
        blocks = examples.batch(config.batch_size, drop_remainder=True)
        batches = bad_records.good_batches(blocks, prepare, source, config, size)
        return filled_up(batches, config.batch_size)
    is_repeatable = config.seed is not None
    examples = examples.map(prepare, _threads(config), deterministic=is_repeatable)
    return examples.batch(config.batch_size, drop_remainder=True)


def _evaluation_batches(dataset, config, bad_records, with_names):
    """The batches of a split: dicts of `image` and `label`, and `name` if wanted."""
    source = _open_source(dataset, config, may_leave_out=bad_records.limit > 0)

    def prepare(position, example):
        del position
        number, content = _fetched(source, example)
        encoded, label = source.parse(number, content, config.labels_offset)
        names = {"name": source.name(number, content)} if with_names else {}
        return {"image": _image(encoded, config), "label": label, **names}

    examples = source.ordered().enumerate()
    if bad_records.limit:
        blocks = examples.batch(config.batch_size)
        return not_empty(bad_records.good_batches(blocks, prepare, source, config))
    return examples.map(prepare, _threads(config)).batch(config.batch_size)


def _numbered(source, size, config, seed):
    """The endless stream of (position, (number, content)), from `start_example` on."""
    first_epoch, skipped = divmod(config.start_example, size)

    def epoch_examples(epoch):
        examples = source.epoch(epoch, config, seed).enumerate(epoch * size)
        is_first = tf.equal(epoch, first_epoch)
        return examples.skip(tf.where(is_first, tf.constant(skipped, tf.int64), 0))

    return tf.data.Dataset.range(first_epoch, tf.int64.max).flat_map(epoch_examples)


def _fetched(source, example):
    """The number of an example of a stream, and its bytes."""
    number, content = example
    return number, source.fetch(number, content)


def _open_source(dataset, config, may_leave_out):
    stored = ExampleCache(dataset, may_leave_out) if config.cache else None
    return open_source(dataset, stored, may_leave_out)


def _image(encoded, config, seed=None):
    """From an image file to the input of a network; for training if there is a seed."""
    image = preprocessing.preprocess_encoded(
        config.preprocessing,
        encoded,
        config.channels,
        config.image_size,
        config.image_size,
        is_training=seed is not None,
        seed=seed,
        **_choices(config, seed),
    )
    if seed is None:
        return tf.cast(image, config.compute_dtype)
    if config.augmentation.random_erasing:
        of_erasing = tf.random.experimental.stateless_fold_in(seed, _ERASING)
        image = erase(image, config.augmentation.random_erasing, of_erasing)
    return tf.cast(image, _training_dtype(config))


def _choices(config, seed):
    """What the config chooses of the preprocessing."""
    if seed is None:
        return {"num_crops": config.crops, "central_fraction": config.central_fraction}
    layers = config.augmentation.randaugment_layers
    if not layers:
        return {"distortion": config.distortion}
    magnitude = config.augmentation.randaugment_magnitude
    of_operations = tf.random.experimental.stateless_fold_in(seed, _RANDAUGMENT)
    return {
        "distortion": config.distortion,
        "recolour": lambda image: rand_augment(image, layers, magnitude, of_operations),
    }


def _training_dtype(config):
    """What images are in until they are in a batch: they are mixed before they are rounded."""
    return tf.float32 if config.augmentation.mixes else config.compute_dtype


def _mixed(batch, dataset, config):
    """The images and labels of a training batch, mixed as the config says."""
    images, labels = batch["image"], batch["label"]
    if config.augmentation.mixes:
        classes = dataset.num_classes - config.labels_offset
        seed = tf.random.experimental.stateless_fold_in(batch["seed"][0], _MIXING)
        images, labels = mix(images, labels, classes, config.augmentation, seed)
    return tf.cast(images, config.compute_dtype), labels


def _is_synthetic(dataset):
    return not dataset.files and not dataset.images


def _check_classes(dataset, config):
    if config.labels_offset >= dataset.num_classes:
        raise UsageError(
            f"A labels offset of {config.labels_offset} leaves no class of the "
            f"{dataset.num_classes} of '{dataset.name}' (--labels_offset)."
        )


def _check_mixing(config):
    if config.augmentation.mixes and config.batch_size < 2:
        raise UsageError(
            "--mixup and --cutmix mix the images of a step, and here a step takes a single one; "
            "give a larger --batch_size."
        )


def _shard_size(source, dataset, config):
    size = source.shard_size(config.shard_index, config.num_shards)
    if not size:
        raise DataError(
            f"The split '{dataset.split}' of '{dataset.name}' has {dataset.num_examples} examples, "
            f"too few for {config.num_shards} workers; use fewer workers."
        )
    return size


def _threads(config):
    return config.num_preprocessing_threads or tf.data.AUTOTUNE


def _configured(batches, config, deterministic):
    """Batches that are made ahead, by as many threads as the config says."""
    options = tf.data.Options()
    options.deterministic = deterministic
    options.autotune.ram_budget = _AUTOTUNED_BYTES
    if config.num_preprocessing_threads:
        options.threading.private_threadpool_size = config.num_preprocessing_threads
    return batches.prefetch(_PREFETCHED_BATCHES).with_options(options)
