"""Training graphs whose steps are run one by one, and operations that go bad after some of them."""

import contextlib

import tiny_runs

from slim_mp import distribution
from slim_mp.compat import tf
from slim_mp.training import optimizers, train_graph
from slim_mp.training.watch import Watch

GOOD_STEPS = 2


def choose(good, bad):
    """A float32 scalar: `good` in the first steps, `bad` in all others."""
    is_bad = tf.train.get_global_step() >= GOOD_STEPS
    return tf.where(is_bad, tf.constant(bad, tf.float32), tf.constant(good, tf.float32))


def overflow(outputs):
    return outputs / tf.cast(choose(1.0, 0.0), outputs.dtype)


def overflow_in_half(outputs):
    return outputs * tf.cast(choose(1.0, 6e4), outputs.dtype)


@tf.custom_gradient
def overflow_of_gradient(outputs):
    divisor = choose(1.0, 0.0)
    return tf.identity(outputs), lambda upstream: upstream / tf.cast(divisor, upstream.dtype)


@contextlib.contextmanager
def running(tmp_path, network_fn, is_watched=True, **changes):
    """A training graph in a session: yields it and a function that runs the next step."""
    config = tiny_runs.config(
        tmp_path / "train",
        optimizer=optimizers.OptimizerConfig("momentum"),
        moving_average_decay=0.9,
        max_consecutive_skips=2,
        **changes,
    )
    dataset = tiny_runs.dataset(tmp_path / "data")
    with (
        tf.Graph().as_default(),
        tf.Session(config=distribution.session_config(config.clones)) as session,
    ):
        tf.set_random_seed(1)
        graph = train_graph.build_graph(config, network_fn, dataset)
        initializers = [tf.global_variables_initializer(), tf.local_variables_initializer()]
        tf.get_default_graph().finalize()
        session.run([*initializers, graph.input_initializer])
        watch = Watch(config, graph, session)

        def step():
            values = session.run({"train_op": graph.train_op, **graph.counters})
            if is_watched:
                watch.check(session.run(graph.global_step), values)
            return values

        yield session, step


def state(session):
    """All variables but the counters, by name."""
    variables = [
        v
        for v in session.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
        if v.op.name != "global_step" and not v.op.name.startswith("loss_scale/")
    ]
    return {v.op.name: value for v, value in zip(variables, session.run(variables), strict=True)}
