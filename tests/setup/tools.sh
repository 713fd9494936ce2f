#!/usr/bin/env bash
# Installs the prebuilt programs of tools.txt into tests/.cache/tools, and prints its `bin`, which
# belongs in front of PATH. Done once per change of that file.
#
# What cannot be had here is left out with a line on stderr: whoever needs a program looks for it,
# and says what was not checked.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
pins=$root/tests/setup/tools.txt
folder=$root/tests/.cache/tools
python=$("$root/tests/setup/python.sh")

stamp=$({ uname -m; cat "$pins"; } | sha256sum | cut -c1-16)
mkdir -p "$folder/bin"
exec 9>"$folder/.lock"
flock 9
if [ "$(cat "$folder/.stamp" 2>/dev/null)" != "$stamp" ]; then
  echo "setup: downloading the programs of tests/setup/tools.txt ..." >&2
  rm -rf "${folder:?}/bin"
  mkdir -p "$folder/bin"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  # One by one: where one has no wheel for this machine, the others are still of use.
  while read -r pin; do
    echo "$pin" >"$work/pin.txt"
    rm -rf "$work/package"
    if "$python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps --only-binary=:all: \
      --require-hashes --target "$work/package" --requirement "$work/pin.txt" >"$work/log" 2>&1; then
      install -m 755 "$work"/package/bin/* "$folder/bin/"
    else
      tail -n 2 "$work/log" >&2
      echo "setup: ${pin%% *} cannot be had here and is left out" >&2
    fi
  done < <(grep -v '^#' "$pins")
  # Tried again next time where one is missing: its registry may only have been out of reach.
  if [ "$(find "$folder/bin" -type f | wc -l)" = "$(grep -cv '^#' "$pins")" ]; then echo "$stamp" >"$folder/.stamp"; fi
fi
# The tests can do without nextest (run-tests.sh), but then nothing ends a test that hangs.
if [ ! -x "$folder/bin/cargo-nextest" ] && ! command -v cargo-nextest >/dev/null; then
  echo "setup: building cargo-nextest (some minutes, once) ..." >&2
  cargo install --quiet --locked --root "$folder" cargo-nextest >&2 ||
    echo "setup: cargo-nextest could not be built; 'cargo test' is used instead" >&2
fi
echo "$folder/bin"
