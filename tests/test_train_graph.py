"""One training step: loss, clones, what it updates, and what a skipped step leaves alone."""

import numpy as np
import pytest
import tiny_runs

from slim_mp.compat import tf
from slim_mp.data.clone_batches import clone_batches
from slim_mp.errors import UsageError
from slim_mp.training import optimizers, train_config, train_graph

DTYPES = ["fp32", "fp16", "bf16"]


def softmax_cross_entropy(labels, logits, smoothing=0.0):
    """Of int labels [batch], or of shares [batch, classes]."""
    log_probabilities = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    shares = labels if labels.ndim == 2 else np.eye(logits.shape[1])[labels]
    targets = shares * (1 - smoothing) + smoothing / logits.shape[1]
    return -(targets * log_probabilities).sum(1).mean()


@pytest.mark.parametrize("kind", ["labels", "shares"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_mean_cross_entropy_and_counts_aux_logits_with_four_tenths(smoothing, kind):
    random = np.random.RandomState(0)
    labels = random.randint(0, 5, 7)
    if kind == "shares":
        labels = random.dirichlet(np.full(5, 0.3), 7).astype(np.float32)
    logits, aux = random.normal(size=(2, 7, 5)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        for end_points, aux_weight in (({}, 0.0), ({"AuxLogits": tf.constant(aux)}, 0.4)):
            loss = session.run(
                train_graph.classification_loss(
                    tf.constant(labels), tf.constant(logits), end_points, smoothing
                )
            )
            expected = softmax_cross_entropy(
                labels, logits, smoothing
            ) + aux_weight * softmax_cross_entropy(labels, aux, smoothing)
            np.testing.assert_allclose(loss, expected, rtol=1e-5)


def run_split(folder, clones, **changes):
    """Three steps of eight images, split over some clones; returns weights and metrics."""
    rate = optimizers.LearningRateConfig(0.1, "exponential", num_epochs_per_decay=2 / 3)
    tiny_runs.run(
        folder,
        tiny_runs.network(weight_decay=0.01, norm=False),
        clones=clones,
        batch_size=8 // clones,
        learning_rate=rate,
        **changes,
    )
    return tiny_runs.variables(folder), tiny_runs.metrics(folder)


def test_two_clones_train_as_one_with_the_whole_batch(tmp_path, caplog):
    caplog.set_level("INFO")
    one, one_metrics = run_split(tmp_path / "one", 1)
    two, two_metrics = run_split(tmp_path / "two", 2)
    assert one.keys() == two.keys()
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=0, atol=1e-5, err_msg=name)
    # The losses contain the weight decay, which two clones must not count twice.
    for key in ("loss", "learning_rate", "gradient_norm"):
        np.testing.assert_allclose(
            [row[key] for row in two_metrics], [row[key] for row in one_metrics], rtol=1e-5
        )
    # 24 images, 2/3 of an epoch a decay: after 16 images, which are two steps.
    rates = [row["learning_rate"] for row in two_metrics]
    np.testing.assert_allclose(rates, [0.1, 0.1, 0.094], rtol=1e-6)
    assert caplog.text.count("; 8 images a step;") == 2
    assert caplog.text.count("2 steps a decay") == 2


@pytest.mark.parametrize("clones", [1, 2])
def test_batches_that_are_copied_ahead_train_the_same_weights(tmp_path, monkeypatch, clones):
    split, _ = run_split(tmp_path / "split", clones)
    copied = []

    def copied_ahead(batches, devices, ahead):
        assert not ahead, "Nothing need be copied to a CPU."
        copied.append(devices)
        return clone_batches(batches, devices, ahead=True)

    monkeypatch.setattr(train_graph, "clone_batches", copied_ahead)
    ahead, _ = run_split(tmp_path / "ahead", clones)
    assert [len(devices) for devices in copied] == [clones]
    tiny_runs.assert_equal_bits(ahead, split)


def test_the_loss_contains_the_weight_decay(tmp_path):
    for name, decay in (("with", 0.01), ("without", 0.0)):
        tiny_runs.run(tmp_path / name, tiny_runs.network(weight_decay=decay), max_number_of_steps=1)
    losses = {name: tiny_runs.metrics(tmp_path / name)[0]["loss"] for name in ("with", "without")}
    # The weights after one step of rate 0.1 are those before it to within a few percent.
    weights = tiny_runs.variables(tmp_path / "with")
    squares = sum((v**2).sum() for name, v in weights.items() if name.endswith("/weights"))
    assert losses["with"] - losses["without"] == pytest.approx(0.01 * squares / 2, rel=0.1)


def test_an_infinite_gradient_of_one_clone_skips_the_step_for_all(tmp_path):
    built = []
    healthy, poisoned = (
        tiny_runs.network(gradient_factor=factor) for factor in (None, tiny_runs.bad_steps(2))
    )

    def network_fn(images):
        built.append(images)
        return (poisoned if len(built) == 2 else healthy)(images)

    for last in (1, 2, 3):
        built.clear()
        tiny_runs.run(tmp_path, network_fn, clones=2, max_number_of_steps=last)
    after = [tiny_runs.variables(tmp_path, step) for step in (1, 2, 3)]
    weights = [name for name in after[0] if name.startswith("tiny/")]
    tiny_runs.assert_equal_bits(after[1], after[0], weights)
    assert not np.array_equal(after[2]["tiny/logits/weights"], after[1]["tiny/logits/weights"])
    assert [row["skipped_steps"] for row in tiny_runs.metrics(tmp_path)] == [0, 1, 1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_skipped_step_leaves_weights_slots_statistics_and_averages_bit_equal(tmp_path, dtype):
    dynamic = train_config.LossScaleConfig(init=16.0, decr_every_n_nan_or_inf=1, decr_ratio=0.5)
    for last in (2, 3):
        tiny_runs.run(
            tmp_path,
            tiny_runs.network(dtype, gradient_factor=tiny_runs.bad_steps(3, factor=np.nan)),
            dtype=dtype,
            max_number_of_steps=last,
            optimizer=optimizers.OptimizerConfig("adam"),
            moving_average_decay=0.9,
            loss_scale=dynamic,
        )
    before, after = (tiny_runs.variables(tmp_path, step) for step in (2, 3))
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    counters = {f"loss_scale/{name}" for name in ("skipped_steps", "consecutive_skips", "scale")}
    assert changed == {"global_step", *counters, "loss_scale/good_steps"}
    assert after["loss_scale/scale"] == 8.0
    # Batch norm, its averages and the slots of Adam were there to be compared.
    assert "tiny/conv1/BatchNorm/moving_mean/ExponentialMovingAverage" in before
    assert "tiny/conv1/weights/Adam_1" in before
    assert all(value.dtype in (np.float32, np.int64) for value in before.values())


def test_batch_norm_statistics_and_moving_averages_follow_the_steps(tmp_path):
    for last in (1, 2):
        tiny_runs.run(tmp_path, moving_average_decay=0.9, max_number_of_steps=last)
    first, second = (tiny_runs.variables(tmp_path, step) for step in (1, 2))
    for name in ("moving_mean", "moving_variance"):
        start = 0.0 if name == "moving_mean" else 1.0
        assert np.abs(first[f"tiny/conv1/BatchNorm/{name}"] - start).min() > 1e-4
    # The decay of a young average is at most (1 + n) / (10 + n) after n steps.
    for name in ("tiny/conv1/weights", "tiny/conv2/BatchNorm/moving_mean"):
        average = f"{name}/ExponentialMovingAverage"
        decay = min(0.9, (1 + 1) / (10 + 1))
        expected = decay * first[average] + (1 - decay) * second[name]
        np.testing.assert_allclose(second[average], expected, rtol=1e-5, atol=1e-7)


def test_only_trainable_scopes_train_and_overlapping_ones_train_once(tmp_path):
    for name, scopes in (("once", "tiny/logits"), ("twice", "tiny/logits/weights,tiny/logits")):
        tiny_runs.run(tmp_path / name, trainable_scopes=scopes, max_number_of_steps=1)
    tiny_runs.run(tmp_path / "start", max_number_of_steps=1, trainable_scopes="tiny/conv1")
    start, once, twice = (tiny_runs.variables(tmp_path / n) for n in ("start", "once", "twice"))
    trained = ("tiny/logits/weights", "tiny/logits/biases")
    for name in (n for n in once if n.startswith("tiny/conv2/") and "moving" not in n):
        np.testing.assert_array_equal(once[name], start[name])
    for name in trained:
        assert not np.array_equal(once[name], start[name])
        np.testing.assert_array_equal(twice[name], once[name])


def test_a_mistyped_trainable_scope_is_refused_with_a_near_name(tmp_path):
    with pytest.raises(UsageError, match=r"--trainable_scopes.*'tiny/logit'.*tiny/logits"):
        tiny_runs.run(tmp_path, trainable_scopes="tiny/logit")


def test_the_decay_of_a_tiny_dataset_is_at_least_one_step(tmp_path):
    rate = optimizers.LearningRateConfig(0.1, "exponential", num_epochs_per_decay=0.01)
    tiny_runs.run(tmp_path, examples=3, learning_rate=rate)
    rates = [row["learning_rate"] for row in tiny_runs.metrics(tmp_path)]
    np.testing.assert_allclose(rates, [0.1, 0.094, 0.08836], rtol=1e-5)


@pytest.mark.parametrize("decay_type", ["exponential", "polynomial"])
def test_the_schedule_of_slim_counts_the_images_of_one_clone(tmp_path, caplog, decay_type):
    caplog.set_level("INFO")
    # 24 images, 2/3 of an epoch: 16 images, which are two steps of two clones with four each.
    rate = optimizers.LearningRateConfig(0.1, decay_type, 0.02, 0.5, num_epochs_per_decay=2 / 3)
    rates = {}
    for per_clone, clones in ((False, 2), (True, 2), (True, 1)):
        folder = tmp_path / f"{per_clone}{clones}"
        tiny_runs.run(
            folder,
            clones=clones,
            learning_rate=rate,
            per_clone_schedule=per_clone,
            max_number_of_steps=5,
        )
        rates[per_clone, clones] = [row["learning_rate"] for row in tiny_runs.metrics(folder)]
    expected = {
        "exponential": ([0.1, 0.1, 0.05, 0.05, 0.025], [0.1, 0.1, 0.1, 0.1, 0.05]),
        "polynomial": ([0.1, 0.06, 0.02, 0.02, 0.02], [0.1, 0.08, 0.06, 0.04, 0.02]),
    }[decay_type]
    np.testing.assert_allclose(rates[False, 2], expected[0], rtol=1e-5)
    np.testing.assert_allclose(rates[True, 2], expected[1], rtol=1e-5)
    # As slim had it: the number of clones does not move the schedule.
    assert rates[True, 1] == rates[True, 2]
    assert "8 images a step" in caplog.text
    assert "2 steps a decay" in caplog.text
    assert "4 steps a decay" in caplog.text
