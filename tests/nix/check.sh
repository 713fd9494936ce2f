#!/usr/bin/env bash
# The Nix part of the gate: `with-nix.sh check.sh [--full]`. Everything is built in the strict
# sandbox, without network, with the stand-in for nixpkgs.
#
# --full builds the bridge as nixpkgs does: optimised, with its unit tests. The image that `make
# image` builds must be there, to compare with. A derivation that was once rebuilt with the same
# result is not rebuilt again. The closing line counts the checks; the exit status is 0 if none
# failed.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
made=$root/tests/.cache/image
if [ "${1:-}" = --full ]; then TEST_NIX_PKGS+="?dir=release"; fi
system=$(uname -m)-linux
own=(--override-input nixpkgs "$TEST_NIX_PKGS" --no-write-lock-file)
work=$(mktemp -d)
log=$work/log said=$work/said
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

check() { # WORDS COMMAND...
  local words=$1 start=$SECONDS status
  shift
  # Not as a condition: bash ignores `set -e` inside a condition.
  set +e
  (set -e; "$@") >"$log" 2>&1 </dev/null
  status=$?
  set -e
  if [ "$status" = 0 ]; then
    passed=$((passed + 1))
    echo "  ok    $words ($((SECONDS - start)) s)"
  else
    failed=$((failed + 1))
    echo "  FAIL  $words ($((SECONDS - start)) s)"
    tail -n 40 "$log" | sed 's/^/        | /'
  fi
}
fails_saying() { # WORDS COMMAND...
  local words=$1
  shift
  if "$@" 2>&1 | tee "$said"; then echo "it did not fail"; return 1; fi
  grep -F -- "$words" "$said"
}

flake() { # VERB ATTRIBUTE ARGUMENTS...
  local verb=$1 attribute=$2
  shift 2
  # shellcheck disable=SC2086  # of several words
  nix $verb "$TEST_NIX_FLAKE${attribute:+#$attribute}" "${own[@]}" "$@"
}
# The plain files under nix/ of the same tree, for packages that override them.
plain() { # ATTRIBUTE ARGUMENTS...
  nix build --no-link --print-out-paths --impure --file tests/nix/overrides.nix --argstr source "$source" "$@"
}
in_store() { echo "$TEST_NIX_DIR/root$1"; }

lock_is_current() {
  timeout 60 nix flake lock --no-update-lock-file "$TEST_NIX_FLAKE"
  [ "$(jq -r '.nodes.root.inputs | keys | join(" ")' flake.lock)" = nixpkgs ]
}

formatted() {
  local files
  mapfile -t files < <(git ls-files '*.nix')
  nixfmt --check "${files[@]}"
  deadnix --fail "${files[@]}"
}

outputs() {
  flake "flake show" "" --all-systems --json >"$said"
  jq -e '
    (["x86_64-linux", "aarch64-linux"] | map(. as $system | ["default", "bridge-unwrapped", "guest-image"] | map(["packages", $system, .])) | add)
    + [["packages", "aarch64-darwin", "default"], ["apps", "x86_64-linux", "demo"], ["devShells", "aarch64-darwin", "default"],
      ["checks", "x86_64-linux", "modules"], ["formatter", "x86_64-linux"], ["overlays", "default"], ["nixosModules", "default"],
      ["homeModules"]] - [paths] | if . == [] then true else error("missing: \(.)") end' "$said"
}

no_image_on_a_mac() {
  fails_saying "nix build .#packages.aarch64-linux.guest-image" flake build legacyPackages.aarch64-darwin.guest-image --no-link
}

rebuild() { # PACKAGE
  local derivation stamp
  derivation=$(flake eval "packages.$system.$1.drvPath" --raw)
  stamp=$TEST_NIX_DIR/rebuilt/$(basename "$derivation")
  [ ! -e "$stamp" ] || { echo "rebuilt before: $derivation"; return; }
  flake build "$1" --no-link
  flake build "$1" --no-link --rebuild
  mkdir -p "$(dirname "$stamp")"
  : >"$stamp"
}

same_as_cargo() {
  local archive out
  archive=$(head -n 1 "$made/built")
  out=$(flake build guest-image --no-link --print-out-paths)
  [ "$(tail -n 1 "$made/built")" = "$(target/debug/guest-image digest)" ]
  [ "$(jq -r .manifest "guest-image/lock/base.$(target/debug/guest-image digest --json | jq -r .architecture).digest.json")" = "$(target/debug/guest-image digest)" ]
  cmp "$archive" "$(in_store "$out/guest.tar")"
}

accepted() { # NAME
  local digest
  # As a user would find it: a build without a digest fails and names it.
  refused "$1-without-digest"
  digest=$(grep -o 'found sha256:[0-9a-f]*' "$said" | head -n 1)
  plain "accepted.$1" --argstr digest "${digest#found }"
}

refused() { # NAME
  local words
  words=$(nix eval --raw --impure --file tests/nix/overrides.nix --argstr source "$source" "refused.$1.says")
  fails_saying "$words" plain "refused.$1.package"
}

# The official SDK starts the server as a user's client would, on an engine that does not have the
# image yet.
client() { "$python" -B tests/sdk/main_job.py --engine "$engine" -- nix run "$TEST_NIX_FLAKE" "${own[@]}" --; }
verified() {
  flake run "" -- image verify --deep | tee "$said"
  # Some engines use the manifest's digest as the ID, others the configuration's.
  grep -E "$(target/debug/guest-image digest --json | jq -r '"\(.manifest)|\(.config)"')" "$said"
}
demo() {
  flake run demo | tee "$said"
  grep 'reach the network: ' "$said"
  if grep 'possible!' "$said"; then return 1; fi
}

# The store's real folder: only flakes can be read through its official name.
source=$(in_store "$(nix flake metadata "$TEST_NIX_FLAKE" "${own[@]}" --json | jq -r .path)")
python=$(tests/setup/python.sh)

check "flake.lock is current, nixpkgs the only input" lock_is_current
check "Nix files are formatted, without dead code" formatted
check "downloads are seeded" tests/nix/seed.sh
check "nix flake check" flake "flake check" "" --print-build-logs --keep-going
check "nix flake check --all-systems, as far as it goes without building" flake "flake check" "" --all-systems --no-build
check "nix flake show --all-systems" outputs
check "on a Mac the reason for the missing image is given" no_image_on_a_mac
for package in guest-image bridge-unwrapped default; do check "rebuilt the same: $package" rebuild "$package"; done
check "cargo and Nix build the same image, and it is the committed one" same_as_cargo
check "an image with one more wheel: its digest is told, then it is built and runs code" accepted extra-input
check "an archive of dockerTools' kind: its digest is told, then it is taken and runs code" accepted docker-archive
for name in image-with-wrong-digest lock-with-tilde own-image-without-digest own-image-with-wrong-digest own-image-tampered; do
  check "refused: $name" refused "$name"
done
engine=${TEST_ENGINE_PODMAN_ROOTFUL:-${TEST_ENGINE_PODMAN_ROOTLESS:-}}
if [ -n "$engine" ]; then
  # On cgroup v1 limits are not enforced for an ordinary user.
  if [ -z "${TEST_ENGINE_PODMAN_ROOTFUL:-}" ] && [ ! -e /sys/fs/cgroup/cgroup.controllers ]; then export MCP_BRIDGE_ALLOW_UNENFORCED=memory,pids; fi
  # A home folder of its own: only the store is shared with this machine's user.
  export CONTAINER_HOST=$engine HOME=$work/home
  mkdir "$HOME"
  check "nix run is the server of the official SDK's client: code runs in podman" client
  check "the image that podman has is the committed one, layer by layer" verified
  check "nix run .#demo" demo
else
  echo "  SKIPPED  nix run: podman is missing: use tests/engines/with.sh podman-rootful -- COMMAND"
fi

echo "nix: $passed passed, $failed failed"
[ "$failed" = 0 ]
