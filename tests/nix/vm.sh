#!/usr/bin/env bash
# Starts the units that the modules write, in the virtual machine of tests/vm (Debian 13 with
# systemd): `with-nix.sh vm.sh`. Debian has no /nix, so what the units need is copied there.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=tests/nix
system=$(uname -m)-linux
units=$(nix build "$TEST_NIX_FLAKE#checks.$system.units" --override-input nixpkgs "$TEST_NIX_PKGS" --no-write-lock-file --no-link --print-out-paths)

disk=$(tests/vm/disk.sh)
files=$(mktemp -d)
trap 'chmod -R u+w "$files"; rm -rf "$files"' EXIT
mkdir "$files/store"
nix path-info --recursive "$units" | while read -r path; do cp -a "$TEST_NIX_DIR/root$path" "$files/store/"; done
ln -s "$units" "$files/units"
cp "$here/client.py" "$here/vm-inside.sh" nix/tests/flip.py "$files/"

VM_USER=root VM_TIMEOUT=${VM_TIMEOUT:-900} VM_SERIAL=tests/.cache/vm/serial-nix.log tests/vm/vm run "$disk" "$files" "bash ./vm-inside.sh" \
  | tee tests/.cache/vm/output-nix.log
grep -q '^vm: [1-9][0-9]* passed, 0 failed$' tests/.cache/vm/output-nix.log || { echo "vm: the checks did not reach their end: see the output above" >&2; exit 1; }
