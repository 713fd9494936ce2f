#!/usr/bin/env bash
# Makes the tests' Python environment in tests/.cache/venv (the MCP SDK as a client, pytest, ruff,
# mypy), and prints the path of its interpreter. Done once per change of the requirements.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
venv=$root/tests/.cache/venv
requirements=("$root/tests/requirements.txt")
[ ! -e "$root/guest-image/runtime-tests/requirements.txt" ] || requirements+=("$root/guest-image/runtime-tests/requirements.txt")

python=
for candidate in python3.14 python3.13 python3.12 python3.11 python3.10 python3; do
  # It is run, not looked up: behind a version manager's shim there may be no interpreter.
  if "$candidate" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then python=$candidate; break; fi
done
if [ -z "$python" ]; then
  echo "setup: no Python 3.10 or newer with venv found, which the MCP SDK needs: sudo apt-get install python3 python3-venv" >&2
  exit 1
fi

stamp=$({ "$python" --version; cat "${requirements[@]}"; echo "$root"; } | sha256sum | cut -c1-16)
if [ "$(cat "$venv/.stamp" 2>/dev/null)" != "$stamp" ]; then
  echo "setup: making the tests' Python environment with $("$python" --version) ..." >&2
  rm -rf "$venv"
  mkdir -p "$(dirname "$venv")"
  "$python" -m venv "$venv"
  arguments=()
  for file in "${requirements[@]}"; do arguments+=(-r "$file"); done
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "${arguments[@]}" >&2
  echo "$stamp" >"$venv/.stamp"
fi
echo "$venv/bin/python"
