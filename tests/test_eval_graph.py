"""The answers of a graph: crops, devices, filled-up batches, real images at any batch size."""

import dataclasses

import numpy as np
import pytest
import table_runs
from table_runs import table
from toy_records import make_record, write_records

from nets import nets_factory
from slim_mp import data, distribution
from slim_mp.compat import tf
from slim_mp.errors import DataError
from slim_mp.evaluation import eval_graph, evaluator


def answered(labels, logits):
    """The answers to logits [batch, crops, classes] in numpy."""
    with tf.Graph().as_default(), tf.Session() as session:
        constants = tf.constant(labels, tf.int64), tf.constant(logits, tf.float32)
        return session.run(eval_graph.answer(*constants))


def test_ten_crops_are_one_answer_by_their_mean_probability():
    logits = np.random.RandomState(0).normal(size=(6, 10, 7)).astype(np.float32) * 4
    labels = np.arange(6)
    found = answered(labels, logits)
    probabilities = np.exp(logits.astype(np.float64))
    mean = (probabilities / probabilities.sum(axis=2, keepdims=True)).mean(axis=1)
    best = np.argsort(-mean, axis=1)[:, :5]
    np.testing.assert_array_equal(found["best"], best)
    expected = np.take_along_axis(mean, best, axis=1)
    np.testing.assert_allclose(np.exp(found["log_probability"]), expected, rtol=1e-12)
    np.testing.assert_allclose(found["loss"], -np.log(mean[np.arange(6), labels]), rtol=1e-12)
    # It is no mean of logits, nor a vote.
    assert (np.argsort(-logits.mean(axis=1), axis=1)[:, :5] != best).any()


def test_a_loss_is_exact_where_a_probability_would_be_zero():
    found = answered([0], [[[0.0, 2000.0]]])
    assert found["loss"] == [2000.0]
    assert found["log_probability"].tolist() == [[0.0, -2000.0]]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_value_that_is_not_finite_spoils_the_answer_to_its_image_alone(value):
    logits = np.zeros([3, 2, 4], np.float32)
    logits[1, 1, 2] = value
    assert answered([0, 0, 0], logits)["is_finite"].tolist() == [True, False, True]


@pytest.mark.parametrize(("batch_size", "clones"), [(23, 1), (1, 1), (4, 3), (30, 2)])
def test_no_network_is_run_on_a_single_image_and_all_on_as_many(tmp_path, batch_size, clones):
    shapes = []

    def network(images):
        shape = tf.py_func(lambda value: shapes.append(value.tolist()), [tf.shape(images)], [])
        with tf.control_dependencies([shape]):
            return table_runs.network(table())(tf.identity(images))

    dataset = table_runs.numbered_dataset(tmp_path / "data")
    config = table_runs.inference(batch_size, clones)
    with evaluator.Evaluator.open(config, network, dataset) as opened:
        opened.restore(table_runs.write_checkpoint(tmp_path))
        assert opened.evaluate().metrics["num_examples"] == table_runs.COUNT
    rounds = -(-table_runs.COUNT // (batch_size * clones))
    assert len(shapes) == rounds * clones
    assert min(shape[0] for shape in shapes) >= 2
    for begin in range(0, len(shapes), clones):
        assert len({tuple(shape) for shape in shapes[begin : begin + clones]}) == 1


def test_crops_of_the_input_reach_the_network_and_come_back_as_one(tmp_path):
    def network(images):
        # The grey of an image of the Inception style, in the place where that of lenet has it.
        grey = tf.rint((images[:, :1, :1, :1] + 1) * 127.5)
        return table_runs.network(table())((grey - 128) / 128)

    dataset = table_runs.numbered_dataset(tmp_path / "data")
    checkpoint = table_runs.write_checkpoint(tmp_path)
    clones = distribution.local_clones(2, num_gpus=0)
    metrics = {}
    for crops in (1, 10):
        inputs = data.InputConfig("inception", 4, 3, 4, tf.float32, crops=crops)
        config = evaluator.InferenceConfig(inputs, clones)
        with evaluator.Evaluator.open(config, network, dataset) as opened:
            opened.restore(checkpoint)
            metrics[crops] = opened.evaluate().metrics
    # All crops of a plain image are alike.
    for name in ("num_examples", "top1", "top5"):
        assert metrics[10][name] == metrics[1][name]
    assert metrics[10]["loss"] == pytest.approx(metrics[1]["loss"], rel=1e-12)
    assert metrics[10]["crops"] == 10


def test_synthetic_images_have_crops_too():
    dataset = data.open_dataset("synthetic", "test", num_classes=7)
    inputs = data.InputConfig("inception", 4, 3, 500, tf.float32, crops=10)
    batches = data.evaluation_batches(dataset, inputs)
    images = tf.data.make_one_shot_iterator(batches).get_next()[0]
    assert images.shape.as_list() == [None, 10, 4, 4, 3]


def test_a_batch_of_bad_images_only_is_no_obstacle(tmp_path):
    table_runs.numbered_dataset(tmp_path / "data")
    bad = make_record(b"no image", 1)
    write_records(tmp_path / "data" / "toy_test_00.tfrecord", [bad] * 2)
    dataset = data.open_dataset("toy", "test", tmp_path / "data", num_classes=table_runs.CLASSES)
    config = table_runs.inference(batch_size=2)
    checkpoint = table_runs.write_checkpoint(tmp_path)
    inputs = dataclasses.replace(config.input, max_bad_records=2)
    config = dataclasses.replace(config, input=inputs)
    with evaluator.Evaluator.open(config, table_runs.network(table()), dataset) as opened:
        opened.restore(checkpoint)
        for _ in range(2):
            metrics = opened.evaluate().metrics
            assert metrics["num_examples"] == table_runs.COUNT
            # Distinct ones, whatever the number of evaluations.
            assert metrics["bad_records"] == 2
    inputs = dataclasses.replace(config.input, max_bad_records=1)
    config = dataclasses.replace(config, input=inputs)
    with evaluator.Evaluator.open(config, table_runs.network(table()), dataset) as opened:
        opened.restore(checkpoint)
        with pytest.raises(DataError, match=r"More than 1 bad records.*toy_test_00"):
            opened.evaluate()


@pytest.fixture(scope="module")
def lenet(tmp_path_factory):
    """A checkpoint of lenet with random weights."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        nets_factory.get_network_fn("lenet", 10)(tf.zeros([2, 28, 28, 1]))
        session.run(tf.global_variables_initializer())
        path = tmp_path_factory.mktemp("lenet") / "model.ckpt"
        return tf.train.Saver().save(session, str(path), write_meta_graph=False)


@pytest.mark.parametrize(("dtype", "tolerance"), [("fp32", 1e-6), ("fp16", 1e-3)])
def test_real_images_give_the_same_figures_whatever_the_batch_and_the_devices(
    lenet, dtype, tolerance
):
    dataset = data.open_dataset("digits", "validation")
    found = []
    for batch_size, clones in ((355, 1), (1, 1), (25, 3)):
        network = nets_factory.get_network_fn("lenet", 10, precision=dtype, float32_kernels=True)
        inputs = data.InputConfig("lenet", 28, 1, batch_size, tf.as_dtype(_DTYPES[dtype]))
        clones = distribution.local_clones(clones, num_gpus=0)
        config = evaluator.InferenceConfig(inputs, clones)
        with evaluator.Evaluator.open(config, network, dataset) as opened:
            opened.restore(lenet)
            found.append(opened.evaluate().metrics)
    for metrics in found:
        for name in ("num_examples", "top1", "top5", "per_class"):
            assert metrics[name] == found[0][name], name
        assert metrics["loss"] == pytest.approx(found[0]["loss"], rel=tolerance)


_DTYPES = {"fp32": "float32", "fp16": "float16"}
