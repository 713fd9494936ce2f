#!/usr/bin/env bash
# Downloads the wheels of the image with matplotlib (tests/wheels, pinned by their sums) to
# tests/.cache/wheels, and prints that folder. Done once per change of the pins.
#
# A registry that cannot be reached is a failure in CI, and elsewhere a line on stderr and nothing
# on stdout.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
pins=$root/tests/wheels/requirements.txt
folder=$root/tests/.cache/wheels
machine=$(uname -m)

stamp=$({ echo "$machine"; cat "$pins"; } | sha256sum | cut -c1-16)
if [ "$(cat "$folder/.stamp" 2>/dev/null)" != "$stamp" ]; then
  python=$("$root/tests/setup/python.sh")
  echo "setup: downloading wheels for the image with matplotlib ..." >&2
  rm -rf "$folder"
  mkdir -p "$folder"
  if ! said=$("$python" -m pip download --quiet --disable-pip-version-check --no-input --no-deps --require-hashes --only-binary=:all: \
    --python-version 3.14 --platform "manylinux_2_28_$machine" --platform "manylinux2014_$machine" -d "$folder" -r "$pins" 2>&1); then
    tail -n 5 <<<"$said" >&2
    rm -rf "$folder"
    if [ -n "${CI:-}" ]; then
      echo "setup: wheels of matplotlib could not be downloaded: CI needs them" >&2
      exit 1
    fi
    echo "setup: SKIPPED: figures in a container: wheels of matplotlib could not be downloaded" >&2
    exit 0
  fi
  echo "$stamp" >"$folder/.stamp"
fi
echo "$folder"
