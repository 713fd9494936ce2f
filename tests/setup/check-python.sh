#!/usr/bin/env bash
# The guest's Python side on this machine's Python: ruff, mypy (strict), pytest. The tests also run
# on the image's own Python (tests/tests/image.rs).
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
python=$("$root/tests/setup/python.sh")
cd "$root/guest-image/runtime-tests"
"$python" -m ruff check --quiet --no-cache --config pyproject.toml ../runtime .
"$python" -m ruff check --quiet --no-cache --config pyproject.toml --extend-ignore W505 "$root/tests/sdk" "$root/tests/engines" "$root/nix" "$root/tests/nix" "$root/docs"
"$python" -m mypy --config-file pyproject.toml --cache-dir "$root/tests/.cache/mypy" ../runtime/mcp ../runtime/_mcp_guest ./*.py ./site-packages/*.py "$root/tests/nix/client.py" "$root/docs/check-links.py"
# `-r R` names the tests that were tried again: only those marked as flaky are, and only in CI.
PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -r R
