#!/bin/sh
# Installs the project with what its tests need into the current Python environment, then checks
# and tests it. Arguments go to pytest: -m "not slow" leaves the long tests out.
set -eu
cd "$(dirname "$0")/.."
python -m pip install --quiet --editable '.[test]'
python -m ruff check .
python -m ruff format --check .
python -m pytest -n 2 --dist loadgroup "$@"
