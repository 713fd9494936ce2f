#!/usr/bin/env bash
# Installs real MCP servers, pinned by version (tests/servers), into tests/.cache/servers, and prints that folder: `python/bin`, `sqlite/bin` (a
# Python environment that keeps the old SDK it needs) and `node/node_modules/.bin`. Done once per change of the pins.
#
# Where a registry is out of reach, that is a failure in CI, and elsewhere a line on stderr and nothing on stdout.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
pins=$root/tests/servers
folder=$root/tests/.cache/servers

give_up() {
  rm -rf "$folder"
  if [ -n "${CI:-}" ]; then
    echo "setup: real MCP servers could not be installed ($1), and CI tests with them" >&2
    exit 1
  fi
  echo "setup: SKIPPED: real MCP servers, $1" >&2
  exit 0
}

"$root/tests/setup/packages.sh" servers >&2 || give_up "node, npm or git is missing (see above)"
base=$("$root/tests/setup/python.sh") || give_up "no Python (see above)"
stamp=$({ "$base" --version; node --version; cat "$pins"/*; echo "$root"; } | sha256sum | cut -c1-16)
if [ "$(cat "$folder/.stamp" 2>/dev/null)" != "$stamp" ]; then
  echo "setup: installing real MCP servers ..." >&2
  rm -rf "$folder"
  mkdir -p "$folder/node"
  log=$folder/log
  for name in python sqlite; do
    "$base" -m venv "$folder/$name"
    "$folder/$name/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -r "$pins/$name.txt" >"$log" 2>&1 ||
      { tail -n 5 "$log" >&2; give_up "Python packages cannot be had here"; }
  done
  cp "$pins/package.json" "$pins/package-lock.json" "$folder/node/"
  npm ci --prefix "$folder/node" --cache "$root/tests/.cache/npm" --no-audit --no-fund --ignore-scripts --omit=dev >"$log" 2>&1 ||
    { tail -n 5 "$log" >&2; give_up "npm packages cannot be had here"; }
  echo "$stamp" >"$folder/.stamp"
fi
echo "$folder"
