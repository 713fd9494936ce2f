#!/usr/bin/env bash
# The smoke part of the suite (vm/tests.txt) on Debian 13 with systemd, cgroup v2 and rootless
# podman 5, as an ordinary user in a virtual machine, with the debug build of the bridge (VM_BRIDGE:
# another one).
set -euo pipefail
cd "$(dirname "$0")/../.."
disk=$(tests/vm/disk.sh)

echo "vm: building the tests ..."
tests=$(cargo test --workspace --test integration --no-run 2>&1 | sed -n 's/.*Executable.*(\(.*\))$/\1/p' | tail -n 1)
[ -n "$tests" ] || { echo "vm: the integration tests could not be built: run \`cargo test --workspace --test integration --no-run\`" >&2; exit 1; }

files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
strip -o "$files/integration" "$tests"
strip -o "$files/mcp-code-bridge" "${VM_BRIDGE:-target/debug/mcp-code-bridge}"
cp "$(head -n 1 "${TEST_IMAGE_DIR:-tests/.cache/image}/built")" "$files/guest.tar"
lock=
if [ -e "${TEST_IMAGE_DIR:-tests/.cache/image}/lock" ]; then
  lock=$(cat "${TEST_IMAGE_DIR:-tests/.cache/image}/lock")
  cp "$lock" "$files/lock.json"
  cp "${lock%.json}.digest.json" "$files/lock.digest.json"
fi
grep -v '^#' tests/vm/tests.txt >"$files/tests.txt"
cp tests/vm/inside.sh "$files/"

echo "vm: booting; in an emulated machine the tests run several times slower ..."
VM_TIMEOUT=${VM_TIMEOUT:-1500} VM_SERIAL=tests/.cache/vm/serial.log tests/vm/vm run "$disk" "$files" "bash ./inside.sh ${lock:+lock.json}" \
  | tee tests/.cache/vm/output.log
# A harness that ran nothing also succeeds; this script must not.
grep -Eq '^test result: ok\. [1-9][0-9]* passed' tests/.cache/vm/output.log || { echo "vm: no test was run" >&2; exit 1; }
