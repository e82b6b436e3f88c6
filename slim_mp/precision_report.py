"""Says whether half precision is safe for a network, and with which loss scale.

python -m slim_mp.precision_report --model_name=NETWORK [--checkpoint_path=CHECKPOINT]

Runs a few training batches in float32, forwards and backwards, and writes report.txt; with the
extra `plot`, also report.png and report.html, to --output_dir. No weight is changed.
"""

import os

from absl import logging

from nets import nets_factory
from slim_mp.errors import UsageError
from slim_mp.figures import report_figure
from slim_mp.files.output_files import make_folder, write_whole
from slim_mp.flags import checkpoint_flags, flags, report_flags
from slim_mp.flags.program import run_program
from slim_mp.report import report_page, report_plot
from slim_mp.report.measurement import measure
from slim_mp.report.report_findings import find


def write_report(findings, folder):
    """Writes the report of some findings into a folder.

    Args:
      findings: `report_findings.Findings`.
      folder: a folder that exists.

    Returns:
      The list of the paths that were written.

    Raises:
      UsageError: if they cannot be written.
    """
    contents = {"report.txt": report_page.write_text(findings)}
    if report_figure.is_available():
        contents["report.png"] = report_plot.draw(findings)
        picture = report_plot.draw(findings, with_words=False)
        contents["report.html"] = report_page.write_page(findings, picture)
    try:
        for name, content in contents.items():
            write_whole(os.path.join(folder, name), content)
    except OSError as error:
        raise UsageError(
            f"--output_dir={folder} cannot be written ({error.strerror}): give a folder that can."
        ) from error
    return [os.path.join(folder, name) for name in contents]


def main():
    """Measures as the flags say, writes the report and prints its text."""
    # The report says what the log would, and nothing but a warning may stand before it.
    logging.set_verbosity(logging.WARNING)
    clones = flags.local_clones()
    request = report_flags.report_request()
    make_folder(request.output_dir, "output_dir")
    dataset = flags.open_dataset(bundled_split="train")
    choices = checkpoint_flags.follow_checkpoint(dataset, is_training=True)
    classes = flags.network_classes(dataset, choices)
    network_fn = nets_factory.get_network_fn(choices.model_name, classes, is_training=True)
    config = report_flags.measurement_config(network_fn, choices, clones)
    findings = find(measure(config, network_fn, dataset), request.number_range)
    paths = write_report(findings, request.output_dir)
    print(report_page.write_text(findings))
    print(f"Written: {', '.join(paths)}")
    if not report_figure.is_available():
        print("For a picture and a page, install matplotlib (the extra `plot`).")


def run():
    """Runs the program."""
    report_flags.define_report_flags()
    run_program(main)


if __name__ == "__main__":
    run()
