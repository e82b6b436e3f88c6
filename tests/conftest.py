"""What all tests share: TensorFlow in graph mode, without the notices of its deprecated parts."""

import pytest

from slim_mp.compat import start_graph_mode, tf
from slim_mp.data import batches

start_graph_mode()


def pytest_configure(config):
    # pytest sets its own filters around each test, so that those of start_graph_mode do not hold.
    for notice in (
        "`layer.(apply|add_variable)` is deprecated",
        "`tf.layers.flatten` is",
        "To make it possible to preserve tf.data options",
    ):
        config.addinivalue_line("filterwarnings", f"ignore:{notice}:UserWarning")


@pytest.fixture(autouse=True)
def input_that_starts_quickly(monkeypatch):
    """Leaves out what tf.data rewrites in the graph of an input: a second of each run.

    It changes no value. Programs that run as processes of their own (programs.run) go through it.
    """
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    configured = batches._configured

    def quickly(*arguments, **settings):
        return configured(*arguments, **settings).with_options(options)

    monkeypatch.setattr(batches, "_configured", quickly)
