"""Frozen graphs: a network with its weights as constants, in one file, as of freeze_graph."""

import contextlib

from slim_mp.compat import tf
from slim_mp.distribution import open_session
from slim_mp.export import serving_graph


def make(network_fn, spec, weights):
    """Builds a network with its weights as constants.

    Args:
      network_fn, spec, weights: as for `saved_model.write`.

    Returns:
      The bytes of a GraphDef with the inputs `images` or `input` and the outputs `logits` and
      `probabilities`; the end points of the network have the names they had in slim.
    """
    with tf.Graph().as_default() as graph, open_session(on_cpu=True) as session:
        tensors = serving_graph.build_for_images(network_fn, spec)
        weights.load(session, tf.global_variables())
        outputs = [*tensors.outputs, *_predictions(graph)]
        frozen = tf.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), outputs
        )
        return frozen.SerializeToString()


def _predictions(graph):
    """Names of the predictions that scripts for slim's graphs read; nothing in the graph does."""
    return [
        op.name
        for op in graph.get_operations()
        if "redictions" in op.name and op.outputs and not op.outputs[0].consumers()
    ]


@contextlib.contextmanager
def open_model(content):
    """Opens a frozen graph.

    Args:
      content: its bytes.

    Yields:
      A function of the name of an input and a batch that returns a dict of name to array.
    """
    graph_def = tf.GraphDef.FromString(content)
    with tf.Graph().as_default(), open_session(on_cpu=True) as session:
        tf.import_graph_def(graph_def, name="")

        def answer(name, batch):
            return session.run(
                {name: f"{name}:0" for name in ("logits", "probabilities")}, {f"{name}:0": batch}
            )

        yield answer
