"""Writes the images of a folder or a list as sharded record files, checked, shuffled and whole.

convert_images.py --input=PHOTOS --output_dir=DIR --dataset_name=photos
"""

import sys

try:
    from slim_mp.conversion.convert import convert
    from slim_mp.flags import conversion_flags
    from slim_mp.flags.program import run_program
except ImportError as error:
    hint = f"; pip install the project, or {error.name} alone" if error.name else ""
    print(f"convert_images: error: {error}{hint}", file=sys.stderr)
    sys.exit(2)
except KeyboardInterrupt:
    sys.exit(130)


def main():
    """Converts as the flags say and prints what was written; returns whether it was stopped."""
    conversion = convert(conversion_flags.conversion_config())
    if conversion:
        print(conversion.describe())
    return conversion is None


def run():
    """Runs the console command."""
    conversion_flags.define_conversion_flags()
    run_program(main)


if __name__ == "__main__":
    run()
