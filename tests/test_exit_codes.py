"""Each way to misuse the programs is one message and a documented exit code."""

import gzip
import re

import programs
import pytest
from lenet_runs import assert_refused, evaluate, train
from toy_records import make_record, plain_image, write_records

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
