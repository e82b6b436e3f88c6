"""What all tests share: TensorFlow in graph mode, without the notices of its deprecated parts."""

from slim_mp.compat import start_graph_mode

start_graph_mode()


def pytest_configure(config):
    # pytest sets its own filters around each test, so that those of start_graph_mode do not hold.
    for notice in (
        "`layer.(apply|add_variable)` is deprecated",
        "`tf.layers.flatten` is",
        "To make it possible to preserve tf.data options",
    ):
        config.addinivalue_line("filterwarnings", f"ignore:{notice}:UserWarning")
