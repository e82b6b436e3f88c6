"""The graph file of research/slim: a network without weights, for freeze_graph and the like."""

import os

from slim_mp.compat import tf
from slim_mp.output_files import make_folder, write_whole, writing


def write(network_fn, path, shape, as_text=False):
    """Writes the graph of a network.

    Args:
      network_fn: function of images that builds the network.
      path: the file.
      shape: of the placeholder `input`: [batch or None, height, width, channels].
      as_text: whether to write the GraphDef as text.

    Raises:
      UsageError: if the file cannot be written, or the images are too small for the network.
    """
    make_folder(os.path.dirname(path) or ".", "output_file")
    with (
        tf.Graph().as_default() as graph,
        # Of the kind that slim's graphs had: freeze_graph cannot read others without a meta graph.
        tf.variable_scope(tf.get_variable_scope(), use_resource=False),
    ):
        network_fn(tf.placeholder(tf.float32, shape, name="input"))
        graph_def = graph.as_graph_def()
    with writing("output_file", path):
        write_whole(path, str(graph_def) if as_text else graph_def.SerializeToString())
