import itertools

import fakes
import numpy as np
import pytest

import slim_mp
from slim_mp.compat import slim, tf

STEPS = 2
SHAPES = {2: (6, 4), 3: (4, 5, 4), 4: (4, 3, 3, 4), 5: (3, 2, 3, 2, 4)}
OWN = "own_updates"


def forms():
    """Combinations of options that TF-Slim's batch norm takes in float32, and a half dtype each."""
    dtypes = itertools.cycle(fakes.HALVES)
    for fused, updates, debias, renorm, weights, rank in itertools.product(
        (None, False), (tf.GraphKeys.UPDATE_OPS, None, OWN), (0, 1), (0, 1), (0, 1), SHAPES
    ):
        legacy = bool(weights or debias or updates != tf.GraphKeys.UPDATE_OPS)
        if (renorm and legacy) or (rank != 4 and (weights or fused is False)):
            continue
        yield pytest.param(
            {
                "fused": fused,
                "updates_collections": updates,
                "zero_debias_moving_mean": bool(debias),
                "renorm": bool(renorm),
                "batch_weights": [1.0, 0.5, 0.0, 2.0] if weights else None,
            },
            rank,
            next(dtypes),
            id=f"{fused}-{updates}-{debias=}-{renorm=}-{weights=}-{rank=}",
        )


def batches(rank):
    """Inputs with mean 3 that each dtype holds exactly."""
    return [3 + np.round(8 * fakes.images(SHAPES[rank], seed)) / 16 for seed in range(STEPS)]


def run(apply, dtype, rank, updates):
    """Outputs, gradients and statistics after each of a few batches."""
    with fakes.fresh_graph(), tf.Session() as session:
        x = tf.placeholder(dtype, SHAPES[rank])
        with slim_mp.arg_scope(dtype):
            y = apply(x)
        assert y.dtype == dtype
        gradients = tf.gradients(fakes.scalar(y), [x, *tf.trainable_variables()])
        assert {gradient.dtype for gradient in gradients[1:]} <= {tf.float32}
        fetches = [y, gradients, tf.get_collection(updates) if updates else []]
        session.run(tf.global_variables_initializer())
        values = [
            session.run(fetches, {x: batch.astype(dtype.as_numpy_dtype)})[:2]
            for batch in batches(rank)
        ]
        return (
            [value.astype(np.float32) for y, gradients in values for value in (y, *gradients)],
            dict(zip(fakes.variable_signatures(), session.run(tf.global_variables()), strict=True)),
            fakes.variable_signatures(),
        )


def check_form(apply, rank, updates, dtypes=fakes.HALVES):
    expected, expected_statistics, expected_variables = run(apply, tf.float32, rank, updates)
    for dtype in dtypes:
        actual, statistics, variables = run(apply, dtype, rank, updates)
        assert variables == expected_variables
        assert {name for _, name in variables.values()} <= {"float32", "int32", "int64"}
        for a, e in zip(actual, expected, strict=True):
            fakes.assert_close(a, e, 8 * fakes.TOLERANCE[dtype])
        for name, value in expected_statistics.items():
            np.testing.assert_allclose(statistics[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(("form", "rank", "dtype"), list(forms()))
def test_every_form_trains(form, rank, dtype):
    def apply(x):
        return slim.batch_norm(x, decay=0.8, scale=True, **form)

    check_form(apply, rank, form["updates_collections"], [dtype])


SOME_FORMS = {
    "default": {},
    "in place": {"updates_collections": None},
    "unfused": {"fused": False},
    "unfused in place": {"fused": False, "updates_collections": None},
    "unfused, own collection": {"fused": False, "updates_collections": OWN},
    "zero debias": {"zero_debias_moving_mean": True},
    "unfused zero debias": {"zero_debias_moving_mean": True, "fused": False},
    "renorm": {"renorm": True},
    "adjustment": {"adjustment": lambda shape: (1.5, 0.25)},
}


def some_forms(*without):
    return pytest.mark.parametrize(
        "form", [form for name, form in SOME_FORMS.items() if name not in without]
    )


@pytest.mark.parametrize("is_training", [True, False])
@some_forms("adjustment")
def test_a_tensor_tells_whether_it_trains(form, is_training):
    def apply(x):
        training = tf.placeholder_with_default(is_training, [])
        return slim.batch_norm(x, scale=True, is_training=training, **form)

    check_form(apply, 4, form.get("updates_collections", tf.GraphKeys.UPDATE_OPS))


@some_forms()
def test_inference(form):
    def apply(x):
        initial = {"moving_mean": 2.5, "moving_variance": 0.5}
        initializers = {name: tf.constant_initializer(value) for name, value in initial.items()}
        return slim.batch_norm(
            x, scale=True, is_training=False, param_initializers=initializers, **form
        )

    check_form(apply, 4, None)


@some_forms()
def test_as_normalizer_of_a_layer(form):
    parameters = {"scale": True, "decay": 0.8, **form}

    def apply(x):
        ones = tf.constant_initializer(np.eye(4, 3))
        by_call = {"normalizer_fn": slim.batch_norm, "normalizer_params": parameters}
        dense = slim.fully_connected(x, 4, weights_initializer=ones, **by_call)
        with slim.arg_scope([slim.conv2d], **by_call), slim.arg_scope([slim.batch_norm], decay=0.5):
            return tf.concat([dense, slim.conv2d(x, 3, 1, weights_initializer=ones)], -1)

    check_form(apply, 4, form.get("updates_collections", tf.GraphKeys.UPDATE_OPS))


def test_an_arg_scope_chooses_the_form():
    def apply(x):
        with slim.arg_scope([slim.batch_norm], fused=False, updates_collections=None):
            return slim.batch_norm(x, decay=0.8)

    check_form(apply, 4, None)


@pytest.mark.parametrize("form", [{}, {"fused": False, "updates_collections": None}])
def test_a_large_mean_and_many_values(form):
    """3,000 values of mean 30, which sums in half cannot take."""
    values = np.random.RandomState(0).randn(3000, 1, 1, 2) + 30
    for dtype in fakes.HALVES:
        rounded = values.astype(dtype.as_numpy_dtype)
        exact = rounded.astype(np.float64)
        exact = (exact - exact.mean(0)) / np.sqrt(exact.var(0) + 1e-3)
        with fakes.fresh_graph(), tf.Session() as session:
            with slim_mp.arg_scope(dtype):
                y = slim.batch_norm(tf.constant(rounded, dtype), decay=0.0, **form)
            session.run(tf.global_variables_initializer())
            outputs = session.run([y, tf.get_collection(tf.GraphKeys.UPDATE_OPS)])[0]
            fakes.assert_close(outputs.astype(np.float64), exact, fakes.TOLERANCE[dtype])
            mean, variance = session.run(tf.moving_average_variables() or tf.model_variables()[1:])
            np.testing.assert_allclose(mean, rounded.astype(np.float64).mean((0, 1, 2)), rtol=1e-5)
            np.testing.assert_allclose(
                variance, rounded.astype(np.float64).var((0, 1, 2)) * (3000 / 2999), rtol=1e-3
            )
