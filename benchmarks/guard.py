"""What the guard of a training step and its counters cost.

Run from the top of the tree: `python -m benchmarks.guard`.

A step of a plain optimizer is paired with one of `LossScaleOptimizer`: loss scale, finite check of
all gradients and statistics, the update inside a condition, the counters fetched, and the batch
kept for a diagnosis. Both train the same variables in one session, since where these happen to lie
in memory decides more than the guard costs, and take turns, each going first every other time; the
plain step built twice shows how far apart equal ones are. The ratio is the median over pairs, so
that a change of the machine's load meets both alike.

What the guard adds is a pass over the gradients, the same for a batch of any size: the smaller the
batch, the larger its share.
"""

import argparse
import functools
import time

import numpy as np

import slim_mp
from nets import nets_factory
from slim_mp.compat import start_graph_mode, tf
from slim_mp.training import diagnosis
from slim_mp.update_ops import assigned_values

PLAIN, AGAIN, GUARDED = "without", "without, again", "with"


def _loss(args):
    """The loss of a batch that stays in memory, and the tensors of the batch."""
    network = nets_factory.get_network_fn(
        args.model_name, 1000, 1e-4, True, args.dtype, args.dtype != "fp32" and not args.gpu
    )
    shape = (args.batch_size, args.image_size, args.image_size, network.channels)
    values = np.random.RandomState(0).uniform(-1, 1, shape).astype(np.float32)
    held = tf.Variable(values, trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    images = tf.cast(held.read_value(), slim_mp.get_precision(args.dtype).compute_dtype)
    labels = tf.range(args.batch_size)
    logits, _ = network(images)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    return loss + tf.losses.get_regularization_loss(), (images, labels)


def _plain_step(loss, batch, optimizer, updates):
    del batch
    with tf.control_dependencies(updates):
        return [optimizer.minimize(loss)]


def _guarded_step(loss, batch, optimizer, updates, loss_scale):
    optimizer = slim_mp.LossScaleOptimizer(optimizer, slim_mp.FixedLossScaleManager(loss_scale))
    train_op = optimizer.apply_gradients(
        optimizer.compute_gradients(loss),
        if_applied=lambda: slim_mp.repeat_updates(updates),
        finite=assigned_values(updates),
    )
    _, keep = diagnosis.keep_batch(batch)
    with tf.control_dependencies([train_op]):
        counts = [optimizer.applied_steps, optimizer.skipped_steps, optimizer.consecutive_skips]
        return [train_op, keep, optimizer.loss_scale, *(count.read_value() for count in counts)]


def make_steps(args, builds):
    """Builds steps that train the same variables, and opens the session they run in.

    Args:
      args: the parsed command line.
      builds: dict of label to a function of the loss, the batch, the optimizer and the updates of
        statistics that returns the fetches of a step.

    Returns:
      Dict of label to a function without arguments that runs one step and returns its loss.
    """
    tf.set_random_seed(0)
    loss, batch = _loss(args)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    optimizer = tf.train.MomentumOptimizer(1e-3, 0.9)
    fetches = {label: build(loss, batch, optimizer, updates) for label, build in builds.items()}
    session = tf.Session()
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    run = {label: session.make_callable([loss, *fetched]) for label, fetched in fetches.items()}
    return {label: lambda step=step: step()[0] for label, step in run.items()}


def measure(steps, warm_up, rounds):
    """Times steps that take turns.

    Args:
      steps: dict of label to a function without arguments that returns a loss.
      warm_up: number of rounds before the clock starts.
      rounds: number of rounds that count.

    Returns:
      Dict of label to an array [rounds, 2] of seconds: on the clock, and on the CPU.

    Raises:
      FloatingPointError: if a loss is not finite, since such a step is cut short.
    """
    durations = {label: [] for label in steps}
    for number in range(-warm_up, rounds):
        order = list(steps)
        for label in order if number % 2 else reversed(order):
            start = np.array([time.perf_counter(), time.process_time()])
            loss = steps[label]()
            taken = (time.perf_counter(), time.process_time()) - start
            if not np.isfinite(loss):
                raise FloatingPointError(f"The loss of the step {label!r} is {loss}.")
            if number >= 0:
                durations[label].append(taken)
    return {label: np.array(taken) for label, taken in durations.items()}


def report(durations):
    """Prints the median step of each and its ratio to the plain one, by pairs."""
    print(f"{'guard and counters':20}{'step ms':>9}{'ratio':>8}{'CPU ms':>9}{'ratio':>8}")
    for label, taken in durations.items():
        clock, cpu = 1e3 * np.median(taken, axis=0)
        clock_ratio, cpu_ratio = np.median(taken / durations[PLAIN], axis=0)
        print(f"{label:20}{clock:9.1f}{clock_ratio:8.3f}{cpu:9.1f}{cpu_ratio:8.3f}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_name", default="resnet_v1_50", choices=nets_factory.NETWORKS)
    parser.add_argument("--dtype", default="fp32", choices=slim_mp.PRECISIONS)
    parser.add_argument("--loss_scale", type=float, help="by default that of the dtype")
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--image_size", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=40, help="steps of each that count")
    parser.add_argument("--warm_up", type=int, default=4, help="steps of each that do not")
    parser.add_argument("--gpu", action="store_true", help="use a GPU's own half kernels")
    return parser.parse_args()


def main():
    args = parse_arguments()
    start_graph_mode()
    scale = args.loss_scale or slim_mp.get_precision(args.dtype).default_loss_scale
    guarded_step = functools.partial(_guarded_step, loss_scale=scale)
    builds = {PLAIN: _plain_step, AGAIN: _plain_step, GUARDED: guarded_step}
    print(
        f"{args.model_name}, {args.dtype}, batch {args.batch_size} at {args.image_size} px, "
        f"loss scale {scale:g}, {args.rounds} steps of each:"
    )
    report(measure(make_steps(args, builds), args.warm_up, args.rounds))


if __name__ == "__main__":
    main()
