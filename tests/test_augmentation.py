"""Random erasing, mixup and CutMix: what they change, by how much, and what they leave alone."""

import dataclasses

import numpy as np
import pytest
from skimage import data as photographs

from slim_mp.compat import tf
from slim_mp.data.augmentation import AugmentationConfig, erase
from slim_mp.data.mixing import mix
from slim_mp.errors import UsageError

PHOTOGRAPH = photographs.chelsea()[:48, :64].astype(np.float32) / 127.5 - 1
DRAWS = 200


def run_each(function, count=DRAWS):
    """The results of a function of an int64 [2] seed for many seeds, each stacked."""
    with tf.Graph().as_default(), tf.Session() as session:
        seed = tf.placeholder(tf.int64, [2])
        results = function(seed)
        found = [session.run(results, {seed: [7, n]}) for n in range(count)]
    return [np.stack(part) for part in zip(*found, strict=True)]


# ---- erasing


def erased(probability, count=DRAWS, image=PHOTOGRAPH):
    (found,) = run_each(lambda seed: [erase(tf.constant(image), probability, seed)], count)
    return found


def test_an_erased_part_is_a_rectangle_of_noise_in_the_range_of_the_image():
    differs = []
    for image in erased(1.0):
        changed = (image != PHOTOGRAPH).any(-1)
        rows, columns = np.flatnonzero(changed.any(1)), np.flatnonzero(changed.any(0))
        box = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        # All of the rectangle is noise, and nothing else.
        assert changed[box].all() and changed.sum() == changed[box].size
        assert 0.015 < changed.mean() < 0.42
        assert 0.25 < len(rows) / len(columns) < 4
        assert PHOTOGRAPH.min() <= image.min() and image.max() <= PHOTOGRAPH.max()
        differs.append((changed.mean(), rows[0], columns[0]))
    shares, tops, lefts = np.transpose(differs)
    # Shares are drawn evenly between 0.02 and 0.4, places all over the image.
    assert abs(shares.mean() - 0.21) < 0.03 and shares.std() > 0.08
    assert len(set(tops)) > 15 and len(set(lefts)) > 20


@pytest.mark.parametrize(("probability", "low", "high"), [(0.0, 0, 0), (0.3, 0.2, 0.4), (1, 1, 1)])
def test_images_are_erased_with_the_probability(probability, low, high):
    is_erased = [not np.array_equal(image, PHOTOGRAPH) for image in erased(probability)]
    assert low <= np.mean(is_erased) <= high


def test_erasing_depends_on_the_seed_only():
    np.testing.assert_array_equal(erased(0.5, 5), erased(0.5, 5))


# ---- mixing

MIXUP, CUTMIX = AugmentationConfig(mixup=0.4), AugmentationConfig(cutmix=1.0)
BOTH = AugmentationConfig(mixup=0.4, cutmix=1.0)
BATCH, CLASSES = 6, 9


def images_of_their_number(size=16):
    """Image n is all n, so that a mixed pixel says which images it is of."""
    numbers = np.arange(BATCH, dtype=np.float32)[:, None, None, None]
    return np.broadcast_to(numbers, (BATCH, size, size, 1)).copy()


def run_mixed(config, images=None, count=DRAWS):
    images = images_of_their_number() if images is None else images
    labels = np.arange(BATCH)
    return run_each(
        lambda seed: mix(tf.constant(images), tf.constant(labels), CLASSES, config, seed), count
    )


@pytest.mark.parametrize("config", [MIXUP, CUTMIX, BOTH])
def test_the_shares_of_the_classes_are_those_of_the_images(config):
    images, labels = run_mixed(config)
    assert labels.dtype == np.float32 and labels.shape == (DRAWS, BATCH, CLASSES)
    np.testing.assert_allclose(labels.sum(-1), 1, atol=1e-6)
    assert labels.min() >= 0
    # The mean of a mixed image is the mean of the numbers of the images in it.
    np.testing.assert_allclose(
        images.mean((2, 3, 4)), labels @ np.arange(CLASSES, dtype=np.float32), atol=1e-4
    )
    # Most images are of two.
    assert (np.count_nonzero(labels, axis=-1) <= 2).all()
    assert (np.count_nonzero(labels, axis=-1) == 2).mean() > 0.5


def test_cutmix_pastes_a_rectangle_of_another_image():
    images, labels = run_mixed(CUTMIX)
    for batch, of_batch in zip(images, labels, strict=True):
        for number, (image, label) in enumerate(zip(batch[..., 0], of_batch, strict=True)):
            pasted = image != number
            assert len(set(image[pasted])) <= 1
            np.testing.assert_allclose(label[number], 1 - pasted.mean(), atol=1e-6)
            if pasted.any():
                rows, columns = np.flatnonzero(pasted.any(1)), np.flatnonzero(pasted.any(0))
                assert pasted.sum() == len(rows) * len(columns)


def test_mixup_weighs_each_pixel_alike():
    images, _ = run_mixed(MIXUP)
    assert (images == images[:, :, :1, :1]).all()
    # Beta(0.4, 0.4) has the mean 1/2 and the variance 1 / (4 (2 alpha + 1)).
    kept = run_mixed(MIXUP, count=600)[1][:, 0, 0]
    assert abs(kept.mean() - 0.5 * (1 + 1 / BATCH)) < 0.06
    assert np.ptp(kept) > 0.99


def test_images_that_are_alike_stay_as_they_are():
    image = np.broadcast_to(PHOTOGRAPH, (BATCH, *PHOTOGRAPH.shape)).copy()
    for config in (MIXUP, CUTMIX):
        images, _ = run_mixed(config, image, 20)
        np.testing.assert_allclose(images, image[None].repeat(20, 0), atol=1e-6)


@pytest.mark.parametrize(
    ("alpha", "spread"), [(5e-324, 0.0), (1e-3, 0.005), (0.2, 0.2), (100, 0.5)]
)
@pytest.mark.parametrize("kind", ["mixup", "cutmix"])
def test_any_alpha_gives_numbers(kind, alpha, spread):
    """A tiny alpha hardly mixes, a large one by halves."""
    images, labels = run_mixed(AugmentationConfig(**{kind: alpha}), count=100)
    assert np.isfinite(images).all() and np.isfinite(labels).all()
    least = 1 - labels.max(-1)
    if kind == "mixup":
        assert least.mean() <= spread
        if alpha == 100:
            assert least.max() > 0.4


def test_with_both_each_batch_has_one_of_them():
    images, _ = run_mixed(BOTH)
    numbers = [len(np.unique(np.round(batch, 4))) for batch in images]
    is_cut = np.array([not (batch == batch[:, :1, :1]).all() for batch in images])
    # A CutMix that pastes nothing or all looks like a mixup.
    assert 0.3 < is_cut.mean() < 0.6
    assert all(n <= BATCH for n, cut in zip(numbers, is_cut, strict=True) if cut)


def test_mixing_depends_on_the_seed_only():
    for config in (MIXUP, CUTMIX, BOTH):
        for first, second in zip(*(run_mixed(config, count=4) for _ in range(2)), strict=True):
            np.testing.assert_array_equal(first, second)
        assert len(np.unique(run_mixed(config, count=10)[0].reshape(10, -1), axis=0)) > 5


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("random_erasing", -0.1),
        ("random_erasing", 1.1),
        ("mixup", -1),
        ("mixup", float("nan")),
        ("cutmix", float("inf")),
        ("randaugment_layers", 11),
        ("randaugment_magnitude", 10.5),
    ],
)
def test_what_is_out_of_its_range_is_refused(field, value):
    with pytest.raises(UsageError, match=f"{field} is {value}; it must be from 0 to"):
        dataclasses.replace(AugmentationConfig(), **{field: value})
