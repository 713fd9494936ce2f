#!/usr/bin/env bash
# Installs real MCP servers, pinned by version (tests/servers), into tests/.cache/servers, and
# prints that folder. It holds `python/bin`, `sqlite/bin` (a Python environment with the old SDK
# that this server needs) and `node/node_modules/.bin`. Done once per change of the pins.
#
# A registry that cannot be reached is a failure in CI, and elsewhere a line on stderr and nothing
# on stdout.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
pins=$root/tests/servers
folder=$root/tests/.cache/servers

give_up() {
  rm -rf "$folder"
  if [ -n "${CI:-}" ]; then
    echo "setup: real MCP servers could not be installed: $1: CI needs them" >&2
    exit 1
  fi
  echo "setup: SKIPPED: real MCP servers: $1" >&2
  exit 0
}

"$root/tests/setup/packages.sh" servers >&2 || give_up "node, npm or git is missing (see above)"
base=$("$root/tests/setup/python.sh") || give_up "Python is missing (see above)"
stamp=$({ "$base" --version; node --version; cat "$pins"/*; echo "$root"; } | sha256sum | cut -c1-16)
if [ "$(cat "$folder/.stamp" 2>/dev/null)" != "$stamp" ]; then
  echo "setup: installing real MCP servers ..." >&2
  rm -rf "$folder"
  mkdir -p "$folder/node"
  log=$folder/log
  for name in python sqlite; do
    "$base" -m venv "$folder/$name"
    "$folder/$name/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -r "$pins/$name.txt" >"$log" 2>&1 ||
      { tail -n 5 "$log" >&2; give_up "Python packages could not be downloaded (see above)"; }
  done
  cp "$pins/package.json" "$pins/package-lock.json" "$folder/node/"
  npm ci --prefix "$folder/node" --cache "$root/tests/.cache/npm" --no-audit --no-fund --ignore-scripts --omit=dev >"$log" 2>&1 ||
    { tail -n 5 "$log" >&2; give_up "npm packages could not be downloaded (see above)"; }
  echo "$stamp" >"$folder/.stamp"
fi
echo "$folder"
