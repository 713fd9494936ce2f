#!/usr/bin/env bash
# Puts every download that the flake pins into the Nix store: `with-nix.sh seed.sh`. cargo,
# guest-image (from apt's mirror) and pip fetch them; a file with the right name and sum is what Nix
# would have fetched. Done once per change of a lock.
set -euo pipefail
cd "$(dirname "$0")/../.."
locks=(Cargo.lock guest-image/lock/base.amd64.json guest-image/lock/base.arm64.json tests/nix/extra-inputs.json)
stamp=$(cat "${locks[@]}" tests/nix/seed.sh | sha256sum)
[ "$(cat "$TEST_NIX_DIR/seeded" 2>/dev/null)" != "$stamp" ] || exit 0
work=$(mktemp -d "$TEST_NIX_DIR/seed.XXXX")
trap 'rm -rf "$work"' EXIT

cargo fetch --locked --quiet
python3 - "$work" <<'PYTHON'
import glob, os, shutil, sys, tomllib
home = os.environ.get("CARGO_HOME", os.path.expanduser("~/.cargo"))
for crate in tomllib.load(open("Cargo.lock", "rb"))["package"]:
    if "source" in crate:
        name = f"{crate['name']}-{crate['version']}"
        shutil.copy(glob.glob(f"{home}/registry/cache/*/{name}.crate")[0], f"{sys.argv[1]}/crate-{name}.tar.gz")
PYTHON

# A line per input: its name in the store, the name of the file, its sum.
inputs() { jq -r '.inputs[] | select(.kind == "deb") | (.url | split("/") | last) as $file | [($file | gsub("[^A-Za-z0-9+._?=-]+"; "-")), $file, .sha256] | @tsv' "$@" | sort -u; }
cache=${XDG_CACHE_HOME:-$HOME/.cache}/mcp-code-bridge/inputs/sha256
find_input() { # FILE SUM
  local path folder=${GUEST_IMAGE_INPUTS:-/nonexistent}
  for path in "$folder/$1" "$folder/$2" "$folder/sha256/$2" "$cache/$2"; do
    if [ -f "$path" ]; then echo "$path"; return; fi
  done
  return 1
}
fetched=
while IFS=$'\t' read -r name file sum; do
  if ! path=$(find_input "$file" "$sum") && [ -z "$fetched" ]; then
    fetched=1
    cargo build --quiet --workspace --bin guest-image
    # Building the image for the other architecture fetches the inputs that both share, too.
    case $(uname -m) in x86_64) other=arm64 ;; *) other=amd64 ;; esac
    target/debug/guest-image build --arch "$other" >/dev/null
    path=$(find_input "$file" "$sum")
  fi
  cp "$path" "$work/$name"
done < <(inputs guest-image/lock/base.{amd64,arm64}.json)

mapfile -t wheels < <(jq -r '.[] | "\(.name)==\(.version)"' tests/nix/extra-inputs.json)
"$(tests/setup/python.sh)" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.14 --dest "$work" "${wheels[@]}"

nix-store --add-fixed sha256 "$work"/* >"$TEST_NIX_DIR/seeded.paths"
echo "seed: $(wc -l <"$TEST_NIX_DIR/seeded.paths") downloads are in the store" >&2
echo "$stamp" >"$TEST_NIX_DIR/seeded"
