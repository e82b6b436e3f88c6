import importlib.metadata
import os
import subprocess
import sys

import pytest

from slim_mp import compat
from slim_mp.compat import slim, tf
from slim_mp.errors import RequirementError

GOOD = {"tensorflow": "2.21.0", "tf-keras": "2.21.0", "tf-slim": "1.1.0"}


@pytest.fixture
def installed(monkeypatch):
    """Sets the versions that seem to be installed."""

    def install(versions):
        def version(name):
            if name not in versions:
                raise importlib.metadata.PackageNotFoundError(name)
            return versions[name]

        monkeypatch.setattr(importlib.metadata, "version", version)

    return install


@pytest.mark.parametrize(
    "versions",
    [
        {},
        {"tensorflow": "2.16.2", "tf-keras": "2.16.0"},
        {"tensorflow": "2.18.0rc1", "tf-keras": "2.18.0"},
        {"tensorflow": "2.21.0.dev1", "tf-keras": "2.21.0.post1"},
    ],
)
def test_versions_that_fit(installed, versions):
    installed({**GOOD, **versions})
    compat.check_requirements()


@pytest.mark.parametrize("build", ["tensorflow-cpu", "tensorflow-rocm", "tf-nightly"])
def test_other_builds_of_tensorflow_count(installed, build):
    installed({build: "2.21.0", "tf-keras": "2.21.0", "tf-slim": "1.1.0"})
    compat.check_requirements()


@pytest.mark.parametrize("missing", GOOD)
def test_a_missing_package_is_named(installed, missing):
    installed({name: version for name, version in GOOD.items() if name != missing})
    with pytest.raises(
        RequirementError, match=f"{missing} is not installed: pip install '{missing}>"
    ):
        compat.check_requirements()


@pytest.mark.parametrize(
    ("versions", "sentence"),
    [
        (
            {"tensorflow": "2.22.0"},
            "tensorflow is of version 2.22, but slim_mp needs tensorflow>=2.16",
        ),
        ({"tensorflow": "3.0"}, "tensorflow is of version 3.0"),
        ({"tensorflow": "2.15.1"}, "tensorflow is of version 2.15"),
        ({"tensorflow": "1.15.0"}, "tensorflow is of version 1.15"),
        ({"tf-keras": "2.22.0"}, "tf-keras is of version 2.22"),
        ({"tf-slim": "1.2.0"}, "tf-slim is of version 1.2"),
        ({"tf-keras": "2.20.1"}, r"tf-keras of 2.20; .* pip install 'tf-keras==2.21.\*'"),
    ],
)
def test_versions_that_do_not_fit(installed, versions, sentence):
    installed({**GOOD, **versions})
    with pytest.raises(RequirementError, match=sentence) as error:
        compat.check_requirements()
    assert "\n" not in str(error.value)
    assert "pip install" in str(error.value)


def test_what_tf_slim_needs_of_tensorflow_is_there():
    """A tensor as `is_training` and batch norm's layer, which fail on a bare TensorFlow."""
    with tf.Graph().as_default():
        x = tf.ones([2, 3, 3, 1])
        for form in ({}, {"fused": False}, {"updates_collections": None}):
            slim.batch_norm(x, is_training=tf.placeholder(tf.bool, []), **form)


PROGRAM = """
from slim_mp.compat import slim, start_graph_mode, tf
before = tf.executing_eagerly()
import slim_mp
assert before and tf.executing_eagerly(), "the import has changed the mode of the process"
start_graph_mode()
assert not tf.executing_eagerly() and tf.resource_variables_enabled()
with slim_mp.arg_scope(tf.float16), tf.Session() as session:
    x = slim.conv2d(tf.ones([1, 4, 4, 2], tf.float16), 2, 3, normalizer_fn=slim.batch_norm)
    optimizer = slim_mp.LossScaleOptimizer(
        tf.train.MomentumOptimizer(0.1, 0.9), slim_mp.FixedLossScaleManager(128)
    )
    train_op = optimizer.minimize(tf.reduce_mean(x))
    session.run(tf.global_variables_initializer())
    session.run(train_op)
print("done")
"""


def test_a_process_starts_without_noise():
    """T01; and importing changes nothing in the process of whoever imports."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(compat.__file__)))
    environment = {**os.environ, "PYTHONPATH": root}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")


def test_only_notices_are_dropped_at_the_start(capfd):
    with pytest.raises(KeyError), compat._without_startup_noise():
        os.write(2, b"I0000 00:00:1 a notice\nE0000 an error\n")
        raise KeyError
    assert capfd.readouterr().err == "E0000 an error\n"
