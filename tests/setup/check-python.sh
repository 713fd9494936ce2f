#!/usr/bin/env bash
# The guest's Python side on this machine's Python: ruff, mypy strict, pytest. (The tests run on the image's own Python too: image.rs.)
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
python=$("$root/tests/setup/python.sh")
cd "$root/guest-image/runtime-tests"
"$python" -m ruff check --quiet ../runtime .
"$python" -m ruff format --quiet --check ../runtime .
"$python" -m mypy
"$python" -m pytest -q -p no:cacheprovider
