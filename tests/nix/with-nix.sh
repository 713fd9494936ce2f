#!/usr/bin/env bash
# Runs a command with a private Nix: `with-nix.sh COMMAND...`. Nix, its store, nixfmt and deadnix
# are made once, in TEST_NIX_DIR (tests/.cache/nix).
#
# The command finds `nix` in PATH and its settings in NIX_CONF_DIR. Builds run in the strict
# sandbox, without network, with this machine's /usr and Rust. TEST_NIX_FLAKE is this tree as a
# flake, TEST_NIX_PKGS is what stands in for nixpkgs:
#     nix build "$TEST_NIX_FLAKE#guest-image" --override-input nixpkgs "$TEST_NIX_PKGS" --no-write-lock-file
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
dir=${TEST_NIX_DIR:-$root/tests/.cache/nix}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

"$root/tests/setup/packages.sh" build nix
stamp=$(sha256sum <"$here/install-nix.sh")
(
  flock 9
  if [ "$(cat "$dir/prefix/.stamp" 2>/dev/null)" != "$stamp" ]; then
    echo "setup: unpacking Nix into $dir/prefix ..." >&2
    "$here/install-nix.sh" "$dir/prefix"
    echo "$stamp" >"$dir/prefix/.stamp"
  fi
  # The formatter of nixpkgs and the finder of dead code, as crates.
  if [ ! -x "$dir/tools/bin/nixfmt" ] || [ ! -x "$dir/tools/bin/deadnix" ]; then
    echo "setup: building nixfmt and deadnix (a minute, once) ..." >&2
    cargo install --quiet --locked --root "$dir/tools" nixfmt_rs@0.5.3 deadnix@1.3.1
  fi
  mkdir -p "$dir/conf"
  cat >"$dir/conf/nix.conf.new" <<CONF
experimental-features = nix-command flakes
store = $dir/root
build-users-group =
substituters =
sandbox = true
sandbox-fallback = false
sandbox-paths = /bin=/usr/bin /usr /lib /lib64 /etc/alternatives /rust=$(rustc --print sysroot) /tools=$dir/tools
max-jobs = 2
warn-dirty = false
flake-registry =
CONF
  mv "$dir/conf/nix.conf.new" "$dir/conf/nix.conf"
) 9>"$dir/lock"

export PATH=$dir/prefix/bin:$dir/tools/bin:$PATH NIX_CONF_DIR=$dir/conf TEST_NIX_DIR=$dir
# A shallow clone is enough. As for any user, only files that git tracks are part of the flake.
export TEST_NIX_FLAKE="git+file://$root?shallow=1" TEST_NIX_PKGS="path:$here/host-pkgs"
exec "$@"
