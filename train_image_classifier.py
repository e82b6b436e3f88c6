"""Trains or fine-tunes a TF-Slim image classifier in float32, float16 or bfloat16.

train_image_classifier.py --model_name=resnet_v1_50 --dtype=fp16 --loss_scale=128
"""

import sys

try:
    from nets import nets_factory
    from slim_mp import checkpoint_flags, flag_groups, flags, train
    from slim_mp.program import run_program
except ImportError as error:
    hint = f"; pip install the project, or {error.name} alone" if error.name else ""
    print(f"train_image_classifier: error: {error}{hint}", file=sys.stderr)
    sys.exit(2)
except KeyboardInterrupt:
    sys.exit(130)


def main():
    """Trains as the flags say; returns whether a signal stopped it."""
    clones = flags.local_clones()
    dataset = flags.open_dataset(bundled_split="train")
    choices = checkpoint_flags.follow_checkpoint(dataset, is_training=True)
    arguments = flags.network_arguments(dataset, choices, clones, is_training=True)
    network_fn = nets_factory.get_network_fn(**arguments)
    return train.train(flags.train_config(network_fn, choices, clones), network_fn, dataset).stopped


def run():
    """Runs the console command."""
    flag_groups.define_training_flags()
    run_program(main)


if __name__ == "__main__":
    run()
