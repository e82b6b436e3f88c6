"""The graph file of research/slim: a network without weights, for freeze_graph and the like."""

import contextlib
import re

from slim_mp.compat import tf
from slim_mp.files.output_files import FileKind, reserve, writing

# As text, or as bytes: both begin with a node, and that with its name.
GRAPH = FileKind(
    "a graph", re.compile(rb"node \{|\n[\x80-\xff]{0,4}[\x00-\x7f]\n[\x01-\x7f][A-Za-z0-9.]")
)


@contextlib.contextmanager
def written(network_fn, path, shape, as_text=False):
    """Writes the graph of a network to a file that gets its name when the block ends well.

    Args:
      network_fn: function of images that builds the network.
      path: the file.
      shape: of the placeholder `input`: [batch or None, height, width, channels].
      as_text: whether to write the GraphDef as text.

    Yields:
      Nothing.

    Raises:
      UsageError: if the file cannot be written, or the images are too small for the network.
    """
    with contextlib.ExitStack() as stack:
        file = reserve(stack, path, "output_file", GRAPH)
        graph_def = _graph_def(network_fn, shape)
        with writing("output_file", path):
            file.write(str(graph_def).encode() if as_text else graph_def.SerializeToString())
            file.flush()
        yield


def _graph_def(network_fn, shape):
    with (
        tf.Graph().as_default() as graph,
        # Of the kind that slim's graphs had: freeze_graph cannot read others without a meta graph.
        tf.variable_scope(tf.get_variable_scope(), use_resource=False),
    ):
        network_fn(tf.placeholder(tf.float32, shape, name="input"))
        return graph.as_graph_def()
