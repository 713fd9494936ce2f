#!/usr/bin/env bash
# Runs in the virtual machine as its ordinary user, in the folder with the files: `inside.sh
# [LOCK]`.
set -euo pipefail
echo "vm: $(. /etc/os-release; echo "$PRETTY_NAME"), $(podman info --format '{{.Version.Version}}, cgroup {{.Host.CgroupsVersion}}, {{.Host.OCIRuntime.Name}}, rootless {{.Host.Security.Rootless}}') as $(id -un)"
systemctl --user start podman.socket
export CI=true RUST_BACKTRACE=0 TEST_TIME_FACTOR=6 TEST_ENGINE_EXCLUSIVE=1 TEST_ENGINES_PARTIAL=1
export TEST_ENGINE_PODMAN_ROOTLESS=unix://$XDG_RUNTIME_DIR/podman/podman.sock TEST_BRIDGE=$PWD/mcp-code-bridge TEST_IMAGE_ARCHIVE=$PWD/guest.tar
if [ -n "${1:-}" ]; then export TEST_IMAGE_LOCK=$PWD/$1; fi
mapfile -t tests <tests.txt
failed=0
./integration --color never --test-threads 1 --exact "${tests[@]}" || failed=1

# Without the user's socket, and with the harness's own engine at another address, the bridge has to
# start podman's service itself.
systemctl --user stop podman.socket podman.service
podman system service --time 0 "unix://$HOME/harness.sock" &
for _ in $(seq 600); do
  [ ! -S "$HOME/harness.sock" ] || break
  read -rt 0.1 <> <(:) || :
done
TEST_ENGINE_PODMAN_ROOTLESS=unix://$HOME/harness.sock \
  ./integration --color never --test-threads 1 --exact discovery::heavy_podman_is_started_and_ended::podman_rootless || failed=1
exit "$failed"
