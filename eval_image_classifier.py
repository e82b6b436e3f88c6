"""Evaluates a checkpoint of a TF-Slim image classifier, each example exactly once.

eval_image_classifier.py --model_name=resnet_v1_50 --dtype=fp16 --checkpoint_path=DIR
"""

import sys

try:
    from nets import nets_factory
    from slim_mp import checkpoint_flags, eval_flags, evaluate, flags
    from slim_mp.metrics import describe, describe_classes
    from slim_mp.program import run_program
except ImportError as error:
    hint = f"; pip install the project, or {error.name} alone" if error.name else ""
    print(f"eval_image_classifier: error: {error}{hint}", file=sys.stderr)
    sys.exit(2)
except KeyboardInterrupt:
    sys.exit(130)


def main():
    """Evaluates as the flags say and prints the metrics."""
    clones = flags.local_clones()
    dataset = flags.open_dataset(bundled_split="validation")
    choices = checkpoint_flags.follow_checkpoint(dataset, is_training=False)
    arguments = flags.network_arguments(dataset, choices, clones, is_training=False)
    network_fn = nets_factory.get_network_fn(**arguments)
    config = eval_flags.eval_config(network_fn, choices, clones)
    metrics = evaluate.evaluate(config, network_fn, dataset)
    print(*filter(None, [describe(metrics), describe_classes(metrics["per_class"])]), sep="\n")


def run():
    """Runs the console command."""
    eval_flags.define_evaluation_flags()
    run_program(main)


if __name__ == "__main__":
    run()
