"""How long a training step takes on a CPU in float32, fp16 and bf16.

Run from the top of the tree: `python -m benchmarks.half_on_cpu [--native]`.

All variants live in one process and take turns step by step, so that a change of the machine's load
meets them alike; where others share the machine, the time on the CPU is the steadier figure. A step
is a whole one: forward and backward pass, weight decay, finite check, momentum and the moving
averages of batch norm, on images of one batch that stays in memory.
"""

import argparse
import dataclasses
import time

import numpy as np

import slim_mp
from nets import nets_factory
from slim_mp.compat import start_graph_mode, tf


@dataclasses.dataclass(frozen=True)
class Variant:
    """A way to compute: a precision, and TensorFlow's half kernels or float32 ones."""

    label: str
    precision: str
    float32_kernels: bool


VARIANTS = (
    Variant("fp32", "fp32", False),
    Variant("fp16", "fp16", True),
    Variant("bf16", "bf16", True),
)
NATIVE_VARIANTS = (
    Variant("fp16, TensorFlow's half kernels", "fp16", False),
    Variant("bf16, TensorFlow's half kernels", "bf16", False),
)


def make_step(args, variant):
    """Builds a training step in a graph and a session of its own.

    Args:
      args: the parsed command line.
      variant: a `Variant`.

    Returns:
      A function without arguments that runs one step and returns its loss.
    """
    with tf.Graph().as_default():
        tf.set_random_seed(0)
        network = nets_factory.get_network_fn(
            args.model_name, 1000, 1e-4, True, variant.precision, variant.float32_kernels
        )
        shape = (args.batch_size, args.image_size, args.image_size, network.channels)
        images = tf.Variable(np.random.RandomState(0).uniform(-1, 1, shape).astype(np.float32))
        logits, _ = network(images.read_value())
        loss = tf.losses.sparse_softmax_cross_entropy(list(range(args.batch_size)), logits)
        loss += tf.losses.get_regularization_loss()
        scale = slim_mp.get_precision(variant.precision).default_loss_scale
        optimizer = slim_mp.LossScaleOptimizer(
            tf.train.MomentumOptimizer(1e-3, 0.9), slim_mp.FixedLossScaleManager(scale)
        )
        pairs = optimizer.compute_gradients(
            loss, [variable for variable in tf.trainable_variables() if variable is not images]
        )
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        train_op = optimizer.apply_gradients(
            pairs, if_applied=lambda: slim_mp.repeat_updates(updates)
        )
        session = tf.Session()
        session.run(tf.global_variables_initializer())
        run = session.make_callable([loss, train_op])
    return lambda: run()[0]


def measure(steps, warm_up, rounds):
    """Times steps that take turns.

    Args:
      steps: list of functions without arguments that return a loss.
      warm_up: number of rounds before the clock starts.
      rounds: number of rounds that count.

    Returns:
      An array [rounds, steps, 2] of seconds: on the clock, and on the CPU over all threads.

    Raises:
      FloatingPointError: if a loss is not finite, since such a step is cut short.
    """
    durations = np.zeros([rounds, len(steps), 2])
    for number in range(-warm_up, rounds):
        for index, step in enumerate(steps):
            start = np.array([time.perf_counter(), time.process_time()])
            loss = step()
            if number >= 0:
                durations[number, index] = (time.perf_counter(), time.process_time()) - start
            if not np.isfinite(loss):
                raise FloatingPointError(f"The loss of step function {index} is {loss}.")
    return durations


def report(variants, durations):
    """Prints the median step of each variant and its ratio to the first."""
    medians = np.median(durations, axis=0)
    print(f"{'':32}{'step ms':>9}{'ratio':>7}{'CPU ms':>9}{'ratio':>7}")
    for variant, (clock, cpu), (clock_ratio, cpu_ratio) in zip(
        variants, 1e3 * medians, medians / medians[0], strict=True
    ):
        print(f"{variant.label:32}{clock:9.0f}{clock_ratio:7.2f}{cpu:9.0f}{cpu_ratio:7.2f}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_name", default="resnet_v1_50", choices=nets_factory.NETWORKS)
    parser.add_argument("--batch_size", type=int, default=4)
    parser.add_argument("--image_size", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=15, help="steps of each variant that count")
    parser.add_argument("--warm_up", type=int, default=3, help="steps of each that do not")
    parser.add_argument(
        "--native", action="store_true", help="measure TensorFlow's half kernels too (slow)"
    )
    return parser.parse_args()


def main():
    args = parse_arguments()
    start_graph_mode()
    variants = VARIANTS + NATIVE_VARIANTS if args.native else VARIANTS
    steps = [make_step(args, variant) for variant in variants]
    print(
        f"{args.model_name}, batch {args.batch_size} at {args.image_size} px, "
        f"{args.rounds} steps of each:"
    )
    report(variants, measure(steps, args.warm_up, args.rounds))


if __name__ == "__main__":
    main()
