#!/usr/bin/env bash
# Prints the folder of the virtual machine's disk. The disk is made first if it is missing or its
# recipe has changed (about two minutes, once).
set -euo pipefail
cd "$(dirname "$0")/../.."
disk=tests/.cache/vm/$(tests/vm/vm key)
if [ ! -e "$disk/.built" ]; then
  rm -rf tests/.cache/vm
  mkdir -p "$disk"
  echo "vm: making the disk (about two minutes, once) ..." >&2
  tests/vm/vm build "$disk"
  touch "$disk/.built"
fi
echo "$disk"
