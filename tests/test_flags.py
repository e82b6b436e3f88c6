"""The flags: those of the former scripts with their defaults, and every way to misuse them."""

import gzip
import re

import numpy as np
import oracle
import programs
import pytest
from absl import flags as absl_flags
from toy_records import make_record, plain_image, write_records

from slim_mp.compat import tf
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


def train(tmp_path, *arguments):
    """Calls the training program for two small steps of lenet with some more flags."""
    return programs.call(
        programs.TRAIN,
        "--model_name=lenet",
        "--train_image_size=8",
        "--batch_size=4",
        "--max_number_of_steps=2",
        f"--train_dir={tmp_path / 'train'}",
        *arguments,
    )


def evaluate(tmp_path, *arguments):
    return programs.call(
        programs.EVALUATE,
        "--model_name=lenet",
        "--eval_image_size=8",
        f"--checkpoint_path={tmp_path / 'train'}",
        f"--eval_dir={tmp_path / 'eval'}",
        *arguments,
    )


def assert_refused(result, exit_code, *words):
    """The exit code, and an error that says some words as all there is on stderr."""
    code, out, err = result
    assert code == exit_code, err
    assert out == ""
    assert err.count(": error: ") == 1
    assert err.startswith(("train_image_classifier.py: error:", "eval_image_classifier.py: error:"))
    assert "Traceback" not in err
    for word in words:
        assert word in err


REFUSED = {
    "--dtype=fp8": ["dtype", "fp32", "fp16", "bf16"],
    "--dtype=float16": ["dtype", "fp16"],
    "--dtpye=fp16": ["dtpye", "--help"],
    "fp16": ["unexpected argument 'fp16'"],
    "--batch_size=many": ["batch_size", "many"],
    "--loss_scale=-1": ["--loss_scale=-1", "dynamic"],
    "--loss_scale=0": ["--loss_scale=0"],
    "--loss_scale=abc": ["--loss_scale=abc"],
    "--loss_scale=nan": ["--loss_scale=nan"],
    "--loss_scale=inf": ["--loss_scale=inf"],
    "--loss_scale=1e39": ["--loss_scale=1e39"],
    "--loss_scale=1e-40": ["--loss_scale=1e-40"],
    "--loss_scale=": ["--loss_scale="],
    "--init_loss_scale=8": ["--init_loss_scale", "--loss_scale=dynamic"],
    "--loss_scale=128 --incr_ratio=3 --decr_ratio=0.1": ["--incr_ratio", "--decr_ratio", "dynamic"],
    "--loss_scale=dynamic --init_loss_scale=0": ["init_loss_scale", "0"],
    "--loss_scale=dynamic --incr_every_n_steps=0": ["incr_every_n_steps"],
    "--loss_scale=dynamic --decr_ratio=2": ["decr_ratio"],
    "--loss_scale=dynamic --min_loss_scale=-1": ["min_loss_scale"],
    "--max_consecutive_skips=0": ["--max_consecutive_skips"],
    "--quantize_delay=0": ["--quantize_delay", "not supported"],
    "--quantize_delay=1000": ["--quantize_delay", "not supported"],
    "--master=grpc://here:1": ["--master", "not supported yet"],
    "--worker_replicas=2": ["--worker_replicas", "not supported yet"],
    "--num_ps_tasks=1": ["--num_ps_tasks", "not supported yet"],
    "--task=1": ["--task", "not supported yet"],
    "--sync_replicas": ["--sync_replicas", "not supported yet"],
    "--replicas_to_aggregate=2": ["--replicas_to_aggregate", "not supported yet"],
    "--num_clones=0": ["--num_clones", "at least 1"],
    "--batch_size=0": ["--batch_size is 0", "at least 1"],
    "--batch_size=-3": ["--batch_size is -3", "at least 1"],
    "--train_image_size=0": ["--train_image_size is 0", "at least 1"],
    "--train_image_size=3": ["3x3", "4x4"],
    "--model_name=inception_v1 --train_image_size=128": ["128x128", "193x193"],
    "--model_name=resnet_v1_51": ["'resnet_v1_51'", "resnet_v1_50"],
    "--model_name=": ["lenet"],
    "--max_number_of_steps=0": ["--max_number_of_steps", "at least 1"],
    "--log_every_n_steps=0": ["--log_every_n_steps", "at least 1"],
    "--save_interval_secs=-1": ["--save_interval_secs", "at least 0"],
    "--save_summaries_secs=nan": ["--save_summaries_secs"],
    "--num_classes=0": ["classes", "0"],
    "--labels_offset=-1": ["labels_offset", "-1"],
    "--labels_offset=10": ["labels_offset", "10"],
    "--labels_offset=11": ["labels_offset", "11"],
    "--label_smoothing=1": ["--label_smoothing"],
    "--moving_average_decay=1.5": ["--moving_average_decay"],
    "--clip_gradient_norm=0": ["--clip_gradient_norm", "above 0"],
    "--clip_gradient_norm=inf": ["--clip_gradient_norm", "finite"],
    "--clip_gradient_value=-1": ["--clip_gradient_value", "above 0"],
    "--clip_gradient_value=nan": ["--clip_gradient_value"],
    "--freeze_batch_norm": ["--freeze_batch_norm", "--trainable_scopes"],
    "--batch_norm_decay=1": ["--batch_norm_decay", "below 1"],
    "--batch_norm_decay=-0.1": ["--batch_norm_decay", "at least 0"],
    "--learning_rate=nan": ["--learning_rate"],
    "--learning_rate=-1": ["--learning_rate"],
    "--weight_decay=-1": ["weight_decay"],
    "--weight_decay=nan": ["weight_decay"],
    "--optimizer=lion": ["optimizer", "adam", "rmsprop"],
    "--momentum=1": ["--momentum"],
    "--learning_rate_decay_type=cosine": ["learning_rate_decay_type", "polynomial"],
    "--num_epochs_per_decay=0": ["--num_epochs_per_decay"],
    "--preprocessing_name=vggg": ["preprocessing_name", "vgg"],
    "--num_readers=0": ["--num_readers is 0"],
    "--num_preprocessing_threads=0": ["--num_preprocessing_threads is 0"],
    "--seed=99999999999999999999999": ["seed"],
    "--seed=-1": ["seed"],
    "--resume=maybe": ["resume", "auto", "never", "must"],
    "--trainable_scopes=LeNet/fc5": ["--trainable_scopes", "'LeNet/fc5'", "LeNet/fc4"],
    "--train_dir=": ["--train_dir"],
    "--train_dir=/dev/null": ["--train_dir=/dev/null", "cannot be written"],
    "--metrics_file=/": ["metrics file"],
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_a_flag_that_makes_no_sense_is_one_message_and_exit_code_2(tmp_path, arguments):
    result = train(tmp_path, *(arguments.split() if " " in arguments else [arguments]))
    assert_refused(result, 2, *REFUSED[arguments])


BAD_DATA = {
    "--num_classes=3": ["10 classes", "3"],
    "--dataset_dir=missing": ["missing", "does not exist"],
    "--dataset_name=flowers": ["flowers", "--dataset_dir"],
    "--dataset_split_name=test": ["'test'", "train and validation"],
}


@pytest.mark.parametrize("arguments", BAD_DATA)
def test_a_dataset_that_cannot_be_used_is_one_message_and_exit_code_3(tmp_path, arguments):
    assert_refused(train(tmp_path, arguments), 3, *BAD_DATA[arguments])


def test_a_bad_record_is_named_with_exit_code_3(tmp_path):
    write_records(
        tmp_path / "toy_train.tfrecord",
        [make_record(plain_image(1), 0), make_record(plain_image(2), 7)],
    )
    toy = ["--dataset_name=toy", f"--dataset_dir={tmp_path}", "--num_classes=2"]
    result = train(tmp_path, *toy)
    assert_refused(result, 3, "Record 1", "toy_train.tfrecord", "label 7", "2 classes")


@pytest.mark.parametrize(
    "arguments",
    [
        "--quantize",
        "--master=local",
        "--max_num_batches=0",
        "--batch_size=0",
        "--eval_image_size=0",
        "--labels_offset=-1",
        "--num_preprocessing_threads=0",
    ],
)
def test_the_evaluation_refuses_what_makes_no_sense(tmp_path, arguments):
    name = arguments.partition("=")[0]
    assert_refused(evaluate(tmp_path, arguments), 2, name)


def test_an_eval_dir_that_cannot_be_written_is_found_before_the_work(tmp_path):
    (tmp_path / "eval").write_text("")
    checkpoint = programs.ROOT / "checkpoints" / "mobilenet_v1_1.0_224"
    arguments = ["--model_name=mobilenet_v1", f"--checkpoint_path={checkpoint}"]
    synthetic = ["--dataset_name=synthetic", "--num_classes=1001", "--eval_image_size=32"]
    result = evaluate(tmp_path, *arguments, *synthetic)
    assert_refused(result, 2, "--eval_dir", "cannot be written")


def test_a_missing_or_damaged_checkpoint_is_one_message_and_exit_code_5(tmp_path):
    missing = tmp_path / "missing.ckpt"
    assert_refused(train(tmp_path, f"--checkpoint_path={missing}"), 5, str(missing), "looked for")
    (tmp_path / "train").mkdir(exist_ok=True)
    assert_refused(evaluate(tmp_path), 5, str(tmp_path / "train"), "no complete checkpoint")
    assert_refused(train(tmp_path, "--resume=must"), 5, "--resume=must")
    code, _, err = train(tmp_path)
    assert code == 0, err
    data = tmp_path / "train" / "model.ckpt-2.data-00000-of-00001"
    with open(data, "r+b") as file:
        file.truncate(data.stat().st_size // 2)
    assert_refused(evaluate(tmp_path), 5, "model.ckpt-2", "cut short")
    archive = tmp_path / "weights.tar.gz"
    archive.write_bytes(gzip.compress(b"weights"))
    assert_refused(train(tmp_path / "2", f"--checkpoint_path={archive}"), 5, "unpack it first")


def test_training_that_cannot_go_on_has_exit_code_4(tmp_path):
    result = train(
        tmp_path,
        "--learning_rate=1e38",
        "--optimizer=sgd",
        "--max_number_of_steps=50",
        "--max_consecutive_skips=3",
    )
    assert_refused(result, 4, "3 steps in a row", "learning rate 1e+38", "smaller --learning_rate")


@pytest.mark.parametrize(("batch_size", "is_warned"), [(2, True), (1, False)])
def test_a_step_of_more_images_than_there_are_is_warned_of(tmp_path, caplog, batch_size, is_warned):
    write_records(tmp_path / "toy_train.tfrecord", [make_record(plain_image(1), 0)] * 3)
    toy = ["--dataset_name=toy", f"--dataset_dir={tmp_path}", "--num_classes=2"]
    code, _, err = train(
        tmp_path, *toy, f"--batch_size={batch_size}", "--num_clones=2", "--clone_on_cpu"
    )
    assert code == 0, err
    warned = [line for line in caplog.messages if "A step takes 4 images" in line]
    assert len(warned) == is_warned
    assert all("--batch_size" in line and "the 3 of" in line for line in warned)


def test_a_run_and_its_evaluation_end_with_0(tmp_path):
    code, out, err = train(tmp_path, "--dtype=fp16")
    assert (code, out) == (0, "")
    assert "error" not in err
    code, out, err = evaluate(tmp_path, "--dtype=bf16")
    assert code == 0
    assert out.startswith("355 images, top-1 ")
    line, title, *classes = out.splitlines()
    assert re.search(r", step 2, [\d.e+]+ images/s$", line)
    assert title.split() == ["precision", "recall", "images", "class"]
    assert [row.split()[-1] for row in classes] == list("0123456789")


# ---- the wrong head


def write_checkpoint(path, name, num_classes):
    """Writes a checkpoint of a network with a head of some classes."""
    variables = oracle.manifest(name)["variables"]
    published = oracle.manifest(name)["num_classes"]
    with tf.Graph().as_default(), tf.Session() as session:
        for variable, shape in variables.items():
            shape = [num_classes if size == published else size for size in shape]
            tf.get_variable(variable, initializer=np.zeros(shape, np.float32))
        session.run(tf.global_variables_initializer())
        return tf.train.Saver().save(session, str(path), write_meta_graph=False)


def test_a_head_of_other_classes_is_explained_and_the_advice_works(tmp_path):
    path = programs.ROOT / "checkpoints" / "mobilenet_v1_1.0_224"
    arguments = [
        "--model_name=mobilenet_v1",
        "--train_image_size=32",
        f"--checkpoint_path={path}",
        "--max_number_of_steps=1",
    ]
    result = train(tmp_path, *arguments, "--checkpoint_exclude_scopes=")
    shapes = "[1, 1, 1024, 1001] in the checkpoint, [1, 1, 1024, 10] in the network"
    advice = "--checkpoint_exclude_scopes=MobilenetV1/Logits"
    assert_refused(result, 5, "MobilenetV1/Logits/Conv2d_1c_1x1/weights: " + shapes, advice + "\n")
    assert not list((tmp_path / "train").glob("*ckpt*"))
    code, _, err = train(tmp_path, *arguments, advice)
    assert code == 0, err


@pytest.mark.slow
def test_the_advice_for_a_head_takes_the_auxiliary_one_too(tmp_path):
    path = write_checkpoint(tmp_path / "inception_v3.ckpt", "inception_v3", 1001)
    arguments = [
        "--model_name=inception_v3",
        f"--train_dir={tmp_path / 'train'}",
        f"--checkpoint_path={path}",
        "--train_image_size=107",
        "--batch_size=2",
        "--max_number_of_steps=1",
    ]
    result = programs.call(programs.TRAIN, *arguments, "--checkpoint_exclude_scopes=")
    shapes = "[1, 1, 2048, 1001] in the checkpoint, [1, 1, 2048, 10] in the network"
    assert_refused(result, 5, "InceptionV3/Logits/Conv2d_1c_1x1/weights: " + shapes, "AuxLogits")
    words = result[2].split()
    [advice] = [word for word in words if word.startswith("--checkpoint_exclude_scopes=")]
    scopes = advice.partition("=")[2].split(",")
    assert sorted(scopes) == ["InceptionV3/AuxLogits", "InceptionV3/Logits"]
    code, _, err = programs.call(programs.TRAIN, *arguments, advice)
    assert code == 0, err
    assert (tmp_path / "train" / "model.ckpt-1.index").exists()


@pytest.mark.parametrize("flag", ["checkpoint_exclude_scopes", "trainable_scopes"])
def test_a_scope_is_a_whole_component_and_a_mistyped_one_offers_near_names(tmp_path, flag):
    checkpoint = programs.ROOT / "checkpoints" / "mobilenet_v1_1.0_224"
    result = train(
        tmp_path,
        "--model_name=mobilenet_v1",
        "--train_image_size=32",
        f"--checkpoint_path={checkpoint}",
        f"--{flag}=MobilenetV1/Logit",
    )
    assert_refused(result, 2, f"--{flag}", "'MobilenetV1/Logit'", "MobilenetV1/Logits")


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
