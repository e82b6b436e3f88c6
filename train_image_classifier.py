"""Trains or fine-tunes a TF-Slim image classifier in float32, float16 or bfloat16.

train_image_classifier.py --model_name=resnet_v1_50 --dtype=fp16 --loss_scale=128
"""

import sys

try:
    from nets import nets_factory
    from slim_mp.flags import checkpoint_flags, eval_flags, flag_groups, flags
    from slim_mp.flags.program import run_program
    from slim_mp.training import train
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
    validation_dataset = eval_flags.open_validation_dataset(dataset)
    choices = checkpoint_flags.follow_checkpoint(dataset, is_training=True)

    def network(is_training):
        arguments = flags.network_arguments(dataset, choices, clones, is_training)
        return nets_factory.get_network_fn(**arguments)

    network_fn = network(is_training=True)
    config = flags.train_config(network_fn, choices, clones)
    if validation_dataset:
        config = eval_flags.with_validation(config, network(is_training=False), validation_dataset)
    return train.train(config, network_fn, dataset).stopped


def run():
    """Runs the console command."""
    flag_groups.define_training_flags()
    eval_flags.define_validation_flags()
    run_program(main)


if __name__ == "__main__":
    run()
