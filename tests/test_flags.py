"""The flags: those of the former scripts with their defaults, their help, and text of any kind."""

import re

import programs
import pytest
from absl import flags as absl_flags

from slim_mp.errors import UsageError
from slim_mp.flags import eval_flags, flag_groups, update_flags
from slim_mp.flags.program import check_unicode
from slim_mp.training import optimizers

# The flags of research/slim's scripts, which keep their names and defaults.
TRAINING_DEFAULTS = {
    "master": "",
    "train_dir": "/tmp/tfmodel/",
    "num_clones": 1,
    "clone_on_cpu": False,
    "worker_replicas": 1,
    "num_ps_tasks": 0,
    "num_readers": None,  # 4 in slim, for this and the next; None for as many as it takes.
    "num_preprocessing_threads": None,
    "log_every_n_steps": 10,
    "save_summaries_secs": 600,
    "save_interval_secs": 600,
    "task": 0,
    "weight_decay": 0.00004,
    "optimizer": "rmsprop",
    "adadelta_rho": 0.95,
    "adagrad_initial_accumulator_value": 0.1,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "opt_epsilon": 1.0,
    "ftrl_learning_rate_power": -0.5,
    "ftrl_initial_accumulator_value": 0.1,
    "ftrl_l1": 0.0,
    "ftrl_l2": 0.0,
    "momentum": 0.9,
    "rmsprop_momentum": 0.9,
    "rmsprop_decay": 0.9,
    "quantize_delay": -1,
    "learning_rate_decay_type": "exponential",
    "learning_rate": 0.01,
    "end_learning_rate": 0.0001,
    "label_smoothing": 0.0,
    "learning_rate_decay_factor": 0.94,
    "num_epochs_per_decay": 2.0,
    "sync_replicas": False,
    "replicas_to_aggregate": 1,
    "moving_average_decay": None,
    "dataset_name": "imagenet",
    "dataset_split_name": "train",
    "dataset_dir": None,
    "labels_offset": 0,
    "model_name": "inception_v3",
    "preprocessing_name": None,
    "batch_size": 32,
    "train_image_size": None,
    "max_number_of_steps": None,
    "checkpoint_path": None,
    "checkpoint_exclude_scopes": None,
    "trainable_scopes": None,
    "ignore_missing_vars": False,
}
EVALUATION_DEFAULTS = {
    "batch_size": 100,
    "max_num_batches": None,
    "master": "",
    "checkpoint_path": "/tmp/tfmodel/",
    "eval_dir": "/tmp/tfmodel/",
    "num_preprocessing_threads": None,
    "dataset_name": "imagenet",
    "dataset_split_name": "test",
    "dataset_dir": None,
    "labels_offset": 0,
    "model_name": "inception_v3",
    "preprocessing_name": None,
    "moving_average_decay": None,
    "eval_image_size": None,
    "quantize": False,
}


@pytest.mark.parametrize(
    ("define", "defaults"),
    [
        (flag_groups.define_training_flags, TRAINING_DEFAULTS),
        (eval_flags.define_evaluation_flags, EVALUATION_DEFAULTS),
    ],
    ids=["training", "evaluation"],
)
def test_the_flags_of_the_former_scripts_keep_their_defaults(define, defaults):
    with programs.without_new_flags():
        define()
        found = {name: absl_flags.FLAGS[name].default for name in defaults}
    assert found == defaults
    assert {name: type(value) for name, value in found.items() if value is not None} == {
        name: float if name in ("save_summaries_secs", "save_interval_secs") else type(value)
        for name, value in defaults.items()
        if value is not None
    }


@pytest.mark.parametrize(
    ("program", "defaults"),
    [(programs.TRAIN, TRAINING_DEFAULTS), (programs.EVALUATE, EVALUATION_DEFAULTS)],
)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_lists_all_flags_and_is_no_error(program, defaults, flag):
    code, out, err = programs.call(program, "--dtype=fp16", flag)
    assert (code, err) == (0, "")
    assert f"{program}.py --model_name=resnet_v1_50" in out
    for name in defaults:
        assert re.search(rf"^  --(\[no\])?{name}:", out, re.MULTILINE), name


class FieldsThatAreRead:
    """Stands for an OptimizerConfig and notes which fields an optimizer takes."""

    def __init__(self, name):
        self.name, self.fields = name, set()

    def __getattr__(self, field):
        self.fields.add(field)
        return getattr(optimizers.OptimizerConfig(), field)


def test_help_says_which_optimizer_a_parameter_belongs_to():
    said = {
        name: set(words.partition(":")[0].split(", "))
        for name, words in update_flags.OPTIMIZER_FIELDS.items()
    }
    used = {name: set() for name in said}
    for optimizer in optimizers.OPTIMIZERS:
        config = FieldsThatAreRead(optimizer)
        optimizers.make_optimizer(config, 0.1)
        for field in config.fields:
            used[field].add(optimizer)
    assert said == used


@pytest.mark.parametrize(
    ("program", "argument"),
    [
        (programs.TRAIN, "--train_dir=/x/a\udcff"),
        (programs.TRAIN, "--dataset_dir=/x/a\udcff"),
        (programs.EVALUATE, "--eval_dir=/x/a\udcff"),
        (programs.EVALUATE, "--checkpoint_path=/x/a\udcff"),
        ("export_inference_graph", "--export_dir=/x/a\udcff"),
        ("convert_images", "--output_dir=/x/a\udcff"),
        ("slim_mp.inspect", "/x/a\udcff"),
        ("slim_mp.fetch", "/x/a\udcff"),
    ],
)
def test_bytes_that_are_no_text_are_refused_in_one_line(program, argument):
    code, out, err = programs.call(program, argument)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert r"'/x/a\udcff'" in err
    # Of what is no flag, the name is empty.
    assert argument.rpartition("=")[0] in err


def test_text_of_any_language_is_taken():
    check_unicode("--train_dir", "/größe/薔薇")
    check_unicode("--scopes", ["a", "b"])
    check_unicode("--batch_size", 3)
    with pytest.raises(UsageError, match="--scopes is 'b"):
        check_unicode("--scopes", ["a", "b\udc80"])
