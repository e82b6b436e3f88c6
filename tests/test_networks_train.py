"""Every network trains in half precision from its own initialisation, at its least image size."""

import math

import numpy as np
import oracle
import pytest
from network_rows import rows

from benchmarks import network_runs
from nets.nets_factory import NETWORKS
from slim_mp.compat import tf

QUICK = ("lenet", "cifarnet", "mobilenet_v1_025")


def _is_deep(name):
    return len(oracle.manifest(name)["variables"]) > 400


def _steps(name, precision, init_loss_scale):
    size = NETWORKS[name].min_image_size
    # Batch norm over fewer values than this has gradients that no scale keeps finite in fp16.
    batch_size = 16 if size < 128 else 2
    return network_runs.Steps(precision, size, batch_size, 10, init_loss_scale)


def _check(taken):
    assert sum(step.is_applied for step in taken) == 2
    for step in taken:
        assert math.isfinite(step.loss)
        assert step.is_finite, "variables"
        assert step.is_applied == (step.overflows == 0)
        assert step.is_change == step.is_applied


@pytest.mark.parametrize("name", rows(QUICK))
def test_takes_two_guarded_steps_in_fp16(name):
    steps = _steps(name, "fp16", 128.0)
    with network_runs.open_session() as session:
        training = network_runs.Training(session, name, steps)
        assert {v.dtype.base_dtype for v in tf.model_variables()} == {tf.float32}
        taken = network_runs.take(training, steps)
        network_runs.set_variables(session)
        logits = session.run(training.logits, training.feed)

    _check(taken)
    # A fixed scale takes the same first step.
    assert taken[0].loss_scale == 128
    if name == "resnet_v1_200":
        assert not taken[0].is_applied and 0 < taken[0].overflows < taken[0].gradients / 10
    # The values of the oracle with batch norm's statistics from the images.
    assert np.isfinite(logits).all()


# The deepest are left out, since their graphs alone take minutes: bfloat16 has the range of
# float32, tests/test_nets.py builds their graphs in it, and docs/networks.md has their steps.
@pytest.mark.parametrize("name", rows(QUICK, [name for name in NETWORKS if not _is_deep(name)]))
def test_takes_two_steps_in_bf16(name):
    steps = _steps(name, "bf16", 1.0)
    with network_runs.open_session() as session:
        training = network_runs.Training(session, name, steps)
        assert {v.dtype.base_dtype for v in tf.model_variables()} == {tf.float32}
        taken = network_runs.take(training, steps)

    _check(taken)
    assert len(taken) == 2, "nothing is skipped in bf16"
