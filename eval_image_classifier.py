"""Evaluates a checkpoint of a TF-Slim image classifier, each example exactly once.

eval_image_classifier.py --model_name=resnet_v1_50 --dtype=fp16 --checkpoint_path=DIR
"""

import sys

try:
    from absl import logging

    from nets import nets_factory
    from slim_mp.evaluation import evaluate, watching
    from slim_mp.evaluation.metrics import describe, describe_classes
    from slim_mp.flags import checkpoint_flags, eval_flags, flags
    from slim_mp.flags.program import run_program
    from slim_mp.stop_signals import StopRequested, StopSignals
except ImportError as error:
    hint = f"; pip install the project, or {error.name} alone" if error.name else ""
    print(f"eval_image_classifier: error: {error}{hint}", file=sys.stderr)
    sys.exit(2)
except KeyboardInterrupt:
    sys.exit(130)


def main():
    """Evaluates as the flags say and prints the metrics; returns whether a signal stopped it."""
    with StopSignals() as signals:
        try:
            _evaluate()
        except StopRequested:
            logging.info("Stopped by %s.", signals.received)
    return bool(signals.received)


def _evaluate():
    clones = flags.local_clones()
    watch = eval_flags.watch_config()
    dataset = flags.open_dataset(bundled_split="validation")
    if watch:
        watching.wait_for_checkpoint(watch)
    choices = checkpoint_flags.follow_checkpoint(dataset, is_training=False)
    arguments = flags.network_arguments(dataset, choices, clones, is_training=False)
    network_fn = nets_factory.get_network_fn(**arguments)
    config = eval_flags.eval_config(network_fn, choices, clones)
    if watch:
        watching.follow(watch, config, network_fn, dataset, _print_line)
    else:
        metrics = evaluate.evaluate(config, network_fn, dataset)
        _print_line(metrics)
        if table := describe_classes(metrics["per_class"]):
            print(table)


def _print_line(metrics):
    print(describe(metrics), flush=True)


def run():
    """Runs the console command."""
    eval_flags.define_evaluation_flags()
    run_program(main)


if __name__ == "__main__":
    run()
