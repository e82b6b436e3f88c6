"""Prints the best classes of image files.

python -m slim_mp.predict MODEL FILE... [--top=5] [--json]

MODEL is a checkpoint (a file, a prefix, a folder such as a train_dir, or the name of a published
one) or a SavedModel that export_inference_graph has written (its folder, or that of its versions).
"""

import contextlib

from absl import logging

from nets import nets_factory
from slim_mp import distribution
from slim_mp.errors import DataError
from slim_mp.export import checkpoint_model, saved_model
from slim_mp.export.best_classes import predict, printable
from slim_mp.files.input_files import few
from slim_mp.flags import predict_flags, subject_flags
from slim_mp.flags.program import run_program


@contextlib.contextmanager
def _open_checkpoint(request):
    """Yields a function that answers, and the name of each class."""
    subject = subject_flags.subject(request.model)
    network_fn = nets_factory.get_network_fn(
        subject.choices.model_name,
        subject.num_classes,
        precision=request.dtype,
        float32_kernels=distribution.local_clones().on_cpu,
    )
    spec = subject_flags.input_spec(network_fn, subject.choices)
    weights, names = subject_flags.weights(subject), subject_flags.label_names(subject)
    with checkpoint_model.open_model(network_fn, spec, weights) as (answer, plan):
        for line in plan.report().splitlines():
            logging.info("%s", line)
        yield answer, names


@contextlib.contextmanager
def _open_export(request):
    with saved_model.open_model(request.saved_model) as answer:
        yield answer, saved_model.read_labels(request.saved_model)


def main(operands):
    """Predicts as the command line says, and prints what comes out."""
    request = predict_flags.predict_request(operands)
    open_model = _open_export if request.saved_model else _open_checkpoint
    problems = []
    with open_model(request) as (answer, names):
        for result in predict(answer, request.files, names, request.top, request.batch_size):
            if result.problem:
                problems.append(result.path)
                logging.warning("%s %s.", printable(result.path), result.problem.rstrip("."))
            if request.as_json:
                print(result.json_line())
            elif not result.problem:
                print(result.text())
    if problems:
        bad, count = len(problems), len(request.files)
        others = "; the others were answered" if bad < count else ""
        raise DataError(f"{bad} of {count} files cannot be used: {few(problems)}{others}.")


def run():
    """Runs the program."""
    predict_flags.define_predict_flags()
    run_program(main, takes_operands=True)


if __name__ == "__main__":
    run()
