"""Downloads flowers, cifar10 or mnist and writes it as record files in the layout of TF-Slim.

download_and_convert_data.py --dataset_name=flowers --dataset_dir=DIR
"""

import sys

try:
    from slim_mp.conversion.published_data import download_and_convert
    from slim_mp.flags import conversion_flags
    from slim_mp.flags.program import run_program
except ImportError as error:
    hint = f"; pip install the project, or {error.name} alone" if error.name else ""
    print(f"download_and_convert_data: error: {error}{hint}", file=sys.stderr)
    sys.exit(2)
except KeyboardInterrupt:
    sys.exit(130)


def main():
    """Converts what the flags name and prints what was written; returns whether it was stopped."""
    request = conversion_flags.download_request()
    outcome = download_and_convert(
        request.name, request.folder, request.mirror, request.num_workers
    )
    if outcome:
        print(outcome)
    return outcome is None


def run():
    """Runs the console command."""
    conversion_flags.define_download_flags()
    run_program(main)


if __name__ == "__main__":
    run()
