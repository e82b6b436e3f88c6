"""Plans and restores over real checkpoints: fitting, not fitting, stored in half, damaged."""

import math
import pathlib
import re

import numpy as np
import oracle
import pytest

from slim_mp.checkpoints import warm_start
from slim_mp.compat import tf
from slim_mp.errors import CheckpointError, UsageError

MOBILENET = (
    pathlib.Path(__file__).parent.parent
    / "checkpoints/mobilenet_v1_1.0_224/mobilenet_v1_1.0_224.ckpt"
)


def make_variables(shapes, dtype=np.float32, seed=0):
    """Makes a variable a name, each of other random values."""
    random = np.random.RandomState(seed)
    return [
        tf.get_variable(name, initializer=tf.cast(random.normal(size=shape), dtype))
        for name, shape in shapes.items()
    ]


def save(path, shapes, dtype=np.float32, version=tf.train.SaverDef.V2):
    """Writes a checkpoint of the variables and returns its path and what it holds, as float32."""
    with tf.Graph().as_default(), tf.Session() as session:
        variables = make_variables(shapes, dtype)
        session.run(tf.global_variables_initializer())
        values = session.run([tf.cast(variable, tf.float32) for variable in variables])
        saver = tf.train.Saver(variables, write_version=version)
        prefix = saver.save(session, str(path), write_meta_graph=False)
    return prefix, dict(zip(shapes, values, strict=True))


def restored_values(plan, variables):
    """Runs a plan in a finalized graph and returns the values of the variables by name."""
    restore = warm_start.restore_fn(plan)
    initializer = tf.global_variables_initializer()
    tf.get_default_graph().finalize()
    with tf.Session() as session:
        session.run(initializer)
        restore(session)
        return {variable.op.name: session.run(variable) for variable in variables}


SHAPES = {
    "net/conv/weights": (3, 3, 2, 4),
    "net/conv/BatchNorm/gamma": (4,),
    "net/conv/BatchNorm/moving_mean": (4,),
    "net/conv/BatchNorm/moving_variance": (4,),
    "net/logits/weights": (4, 5),
    "net/logits/biases": (5,),
}
OTHER_HEAD = SHAPES | {"net/logits/weights": (4, 3), "net/logits/biases": (3,)}


@pytest.fixture(autouse=True)
def fresh_graph(caplog):
    caplog.set_level("INFO")
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("version", [tf.train.SaverDef.V1, tf.train.SaverDef.V2])
def test_all_variables_come_back_bit_for_bit(tmp_path, version, caplog):
    prefix, expected = save(tmp_path / "m.ckpt", SHAPES, version=version)
    variables = make_variables(SHAPES, seed=1)
    plan = warm_start.plan_warm_start(prefix, variables)
    assert plan.report() == f"From {prefix}: 6 variables restored."
    got = restored_values(plan, variables)
    assert set(got) == set(SHAPES)
    for name in SHAPES:
        np.testing.assert_array_equal(got[name], expected[name])
    assert "Cast" not in caplog.text


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64])
def test_other_stored_dtypes_are_cast_with_one_notice(tmp_path, caplog, dtype):
    prefix, expected = save(tmp_path / "m.ckpt", SHAPES, dtype)
    variables = make_variables(SHAPES, seed=1)
    plan = warm_start.plan_warm_start(prefix, variables)
    assert plan.cast == dict.fromkeys(SHAPES, dtype)
    got = restored_values(plan, variables)
    for name in SHAPES:
        assert got[name].dtype == np.float32
        np.testing.assert_array_equal(got[name], expected[name])
    notice = f"Cast to float32: 6 variables that are stored as {dtype.name}."
    assert caplog.text.count(notice) == 1 and notice in plan.report()


def exclude_value(error):
    return re.search(r"--checkpoint_exclude_scopes=(\S+)", str(error)).group(1)


def test_another_head_is_listed_and_the_offered_scopes_work(tmp_path):
    prefix, expected = save(tmp_path / "m.ckpt", SHAPES)
    variables = make_variables(OTHER_HEAD, seed=1)
    with pytest.raises(CheckpointError) as caught:
        warm_start.plan_warm_start(prefix, variables, ignore_missing=True)
    message = str(caught.value)
    assert "net/logits/weights: [4, 5] in the checkpoint, [4, 3] in the network" in message
    assert "net/logits/biases: [5] in the checkpoint, [3] in the network" in message
    assert "--ignore_missing_vars" not in message
    plan = warm_start.plan_warm_start(prefix, variables, exclude_value(message))
    assert plan.excluded == ("net/logits/weights", "net/logits/biases")
    assert "Excluded: 2 (net/logits/weights, net/logits/biases)." in plan.report()
    got = restored_values(plan, variables)
    for name in set(SHAPES) - set(plan.excluded):
        np.testing.assert_array_equal(got[name], expected[name])
    assert got["net/logits/weights"].shape == (4, 3)


def test_missing_variables_are_listed_or_ignored_with_a_warning(tmp_path, caplog):
    stored = {name: shape for name, shape in SHAPES.items() if "moving" not in name}
    prefix, expected = save(tmp_path / "m.ckpt", stored)
    variables = make_variables(SHAPES, seed=1)
    with pytest.raises(CheckpointError) as caught:
        warm_start.plan_warm_start(prefix, variables)
    message = str(caught.value)
    assert "net/conv/BatchNorm/moving_mean: not in the checkpoint, [4] in the network" in message
    assert "--ignore_missing_vars" in message
    warm_start.plan_warm_start(prefix, variables, exclude_value(message))
    plan = warm_start.plan_warm_start(prefix, variables, ignore_missing=True)
    assert plan.missing == ("net/conv/BatchNorm/moving_mean", "net/conv/BatchNorm/moving_variance")
    assert "WARNING" in caplog.text and "moving_mean, net/conv/BatchNorm/moving_v" in caplog.text
    got = restored_values(plan, variables)
    np.testing.assert_array_equal(got["net/conv/weights"], expected["net/conv/weights"])


def test_the_offered_value_keeps_the_scopes_that_were_given(tmp_path):
    prefix, _ = save(tmp_path / "m.ckpt", SHAPES)
    changed = OTHER_HEAD | {"net/conv/BatchNorm/gamma": (7,)}
    variables = make_variables(changed)
    with pytest.raises(CheckpointError) as caught:
        warm_start.plan_warm_start(prefix, variables, "net/logits")
    assert exclude_value(caught.value) == "net/logits,net/conv/BatchNorm"
    warm_start.plan_warm_start(prefix, variables, exclude_value(caught.value))
    with pytest.raises(CheckpointError) as caught:
        warm_start.plan_warm_start(prefix, variables, "net/logits/biases,net/conv/BatchNorm/gamma")
    assert exclude_value(caught.value) == "net/conv/BatchNorm/gamma,net/logits"


def small(shape):
    return tuple(min(size, 3) for size in shape)


def test_both_heads_of_inception_v3(tmp_path):
    shapes = oracle.manifest("inception_v3")["variables"]
    prefix, _ = save(tmp_path / "v3.ckpt", {name: small(shapes[name]) for name in shapes})
    heads = ("InceptionV3/Logits/", "InceptionV3/AuxLogits/Conv2d_2b_1x1/")
    variables = make_variables(
        {n: (*small(s)[:-1], 2) if n.startswith(heads) else small(s) for n, s in shapes.items()}
    )
    with pytest.raises(CheckpointError) as caught:
        warm_start.plan_warm_start(prefix, variables)
    assert len(re.findall(r" in the checkpoint, ", str(caught.value))) == 4
    assert set(exclude_value(caught.value).split(",")) == {
        "InceptionV3/Logits",
        "InceptionV3/AuxLogits",
    }
    warm_start.plan_warm_start(prefix, variables, exclude_value(caught.value))


def test_the_published_mobilenet_with_five_classes():
    shapes = {
        name: (*shape[:-1], 5) if name.startswith("MobilenetV1/Logits/") else tuple(shape)
        for name, shape in oracle.manifest("mobilenet_v1")["variables"].items()
    }
    variables = [tf.get_variable(name, shape) for name, shape in shapes.items()]
    with pytest.raises(CheckpointError, match=r"\[1001\] in the checkpoint, \[5\]") as caught:
        warm_start.plan_warm_start(str(MOBILENET), variables)
    assert exclude_value(caught.value) == "MobilenetV1/Logits"
    plan = warm_start.plan_warm_start(str(MOBILENET.parent), variables, "MobilenetV1/Logits")
    assert (len(plan.restored), len(plan.excluded)) == (135, 2)
    got = restored_values(plan, variables)
    reader = tf.train.NewCheckpointReader(str(MOBILENET))
    for name in plan.restored:
        np.testing.assert_array_equal(got[name], reader.get_tensor(name))
    assert np.abs(got["MobilenetV1/Conv2d_0/BatchNorm/moving_mean"]).max() > 0


def test_another_network_is_named_by_its_scopes(tmp_path):
    variables = make_variables(SHAPES)
    for ignore_missing in (False, True):
        with pytest.raises(CheckpointError) as caught:
            warm_start.plan_warm_start(str(MOBILENET), variables, ignore_missing=ignore_missing)
        assert "MobilenetV1" in str(caught.value) and "network's are net." in str(caught.value)
    with pytest.raises(CheckpointError, match="MobilenetV1"):
        warm_start.plan_resume(str(MOBILENET), variables)


def test_scopes_that_leave_nothing_or_hold_nothing(tmp_path):
    prefix, _ = save(tmp_path / "m.ckpt", SHAPES)
    variables = make_variables(SHAPES)
    with pytest.raises(UsageError, match="excludes every variable"):
        warm_start.plan_warm_start(prefix, variables, "net")
    with pytest.raises(UsageError, match=r"--checkpoint_exclude_scopes: .*'net/logit'.*net/logits"):
        warm_start.plan_warm_start(prefix, variables, "net/logit")


STATE = {"global_step": (), "net/conv/weights/Momentum": (3, 3, 2, 4)}


def test_a_run_goes_on_with_its_state_and_extras_are_ignored(tmp_path):
    scale = {"loss_scale/current": ()}
    prefix, expected = save(tmp_path / "m.ckpt", SHAPES | STATE | scale)
    variables = make_variables(SHAPES | STATE, seed=1)
    plan = warm_start.plan_resume(prefix, variables)
    assert not plan.missing
    got = restored_values(plan, variables)
    for name in SHAPES | STATE:
        np.testing.assert_array_equal(got[name], expected[name])


@pytest.mark.parametrize("as_names", [False, True])
def test_optional_state_keeps_its_initial_value(tmp_path, caplog, as_names):
    prefix, _ = save(tmp_path / "m.ckpt", SHAPES | STATE)
    variables = make_variables(SHAPES | STATE)
    scale = tf.get_variable("loss_scale/current", initializer=np.float32(128))
    optional = [scale.op.name if as_names else scale]
    plan = warm_start.plan_resume(prefix, [*variables, scale], optional)
    assert plan.missing == ("loss_scale/current",)
    assert caplog.text.count("loss_scale/current") == 1
    assert restored_values(plan, [scale]) == {"loss_scale/current": 128.0}
    with pytest.raises(CheckpointError, match="loss_scale/current"):
        warm_start.plan_resume(prefix, [*variables, scale])


def test_a_changed_optimizer_or_head_is_explained(tmp_path):
    prefix, _ = save(tmp_path / "m.ckpt", SHAPES | STATE)
    adam = {"net/conv/weights/Adam": (3, 3, 2, 4)}
    with tf.Graph().as_default(), pytest.raises(CheckpointError) as caught:
        warm_start.plan_resume(prefix, make_variables(SHAPES | adam))
    for words in ("--train_dir", "--optimizer", "net/conv/weights/Adam", "--checkpoint_path="):
        assert words in str(caught.value)
    with pytest.raises(CheckpointError) as caught:
        warm_start.plan_resume(prefix, make_variables(OTHER_HEAD))
    assert "net/logits/biases: [5] in the checkpoint, [3]" in str(caught.value)
    assert "--optimizer" not in str(caught.value)


def test_averages_are_used_where_there_are_some(tmp_path):
    averaged = {f"{n}/ExponentialMovingAverage": s for n, s in SHAPES.items() if "moving" not in n}
    prefix, expected = save(tmp_path / "m.ckpt", SHAPES | averaged)
    variables = make_variables(SHAPES, seed=1)
    mapping, count = warm_start.averages_in(prefix, variables)
    assert count == 4 and set(mapping.values()) == set(variables)
    plan = warm_start.plan_evaluation(prefix, variables)
    assert plan.averages == 4 and "Moving averages used for 4" in plan.report()
    got = restored_values(plan, variables)
    for name in SHAPES:
        key = f"{name}/ExponentialMovingAverage"
        np.testing.assert_array_equal(got[name], expected.get(key, expected[name]))


def test_evaluation_without_averages(tmp_path):
    averaged = {f"{n}/ExponentialMovingAverage": s for n, s in SHAPES.items()}
    prefix, _ = save(tmp_path / "m.ckpt", SHAPES | averaged)
    variables = make_variables(SHAPES)
    plan = warm_start.plan_evaluation(prefix, variables, use_averages=False)
    assert plan.averages == 0 and set(plan.restored) == set(SHAPES)
    with tf.Graph().as_default(), pytest.raises(CheckpointError, match=r"\[4, 5\].*\[4, 3\]"):
        warm_start.plan_evaluation(prefix, make_variables(OTHER_HEAD), use_averages=False)


def test_damaged_data_of_the_right_size_are_found_when_read(tmp_path):
    prefix, _ = save(tmp_path / "m.ckpt", SHAPES)
    data = tmp_path / "m.ckpt.data-00000-of-00001"
    variables = make_variables(SHAPES)
    restore = warm_start.restore_fn(warm_start.plan_warm_start(prefix, variables))
    data.write_bytes(bytes(4 * sum(math.prod(shape) for shape in SHAPES.values())))
    with tf.Session() as session, pytest.raises(CheckpointError, match="damaged"):
        restore(session)
