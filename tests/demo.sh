#!/usr/bin/env bash
# The main job with the official Python SDK as the client, on the engine that answers here, or on private ones started for it: `demo.sh IMAGE_DIR`.
set -euo pipefail
cd "$(dirname "$0")/.."
images=$1
python=$(tests/setup/python.sh)
export MCP_BRIDGE_IMAGE_ARCHIVE MCP_BRIDGE_IMAGE_LOCK MCP_BRIDGE_LOG_LEVEL=${MCP_BRIDGE_LOG_LEVEL:-warn}
MCP_BRIDGE_IMAGE_ARCHIVE=$(realpath "$(head -n 1 "$images/built")")
[ ! -e "$images/lock" ] || MCP_BRIDGE_IMAGE_LOCK=$(cat "$images/lock")
bridge=target/debug/mcp-code-bridge
# Says itself why there are none.
servers=$(tests/setup/servers.sh)

main_job() { # NAME ADDRESS
  echo
  echo "================ the main job on $1 ================"
  "$python" -B tests/sdk/main_job.py ${2:+--engine "$2"} -- "$bridge"
}

servers_job() { # NAME; once: what it shows does not depend on the engine
  if [ -z "$servers" ]; then
    echo "demo: real MCP servers could not be installed here (see above); leaving their part out"
    return
  fi
  echo
  echo "================ one program, five MCP servers, on $1 ================"
  "$python" -B tests/sdk/servers_job.py --servers "$servers" --counter target/debug/count-tokens -- "$bridge"
}

if "$bridge" doctor >/dev/null 2>&1; then
  echo "demo: using the container engine of this machine ($("$bridge" doctor | sed -n 's/^engine *[a-z]* *//p' | head -n 1))"
  main_job "this machine's engine" ""
  servers_job "this machine's engine"
  exit
fi

echo "demo: no container engine answers here; starting private ones"
if [ "$(id -u)" = 0 ]; then engines=(docker podman-rootful); else engines=(podman-rootless); fi
export python bridge servers
export -f main_job servers_job
# shellcheck disable=SC2016  # for the shell inside
tests/engines/with.sh "${engines[@]}" -- bash -euo pipefail -c '
  ran=0
  both_jobs() { # NAME ADDRESS
    main_job "$1" "$2"
    [ "$ran" = 1 ] || servers_job "$1"
    ran=1
  }
  if [ -n "${TEST_ENGINE_DOCKER:-}" ]; then
    DOCKER_HOST=$TEST_ENGINE_DOCKER both_jobs "docker" "$TEST_ENGINE_DOCKER"
  fi
  if [ -n "${TEST_ENGINE_PODMAN_ROOTFUL:-}" ]; then
    CONTAINER_HOST=$TEST_ENGINE_PODMAN_ROOTFUL both_jobs "podman (root)" "$TEST_ENGINE_PODMAN_ROOTFUL"
  fi
  if [ -n "${TEST_ENGINE_PODMAN_ROOTLESS:-}" ]; then
    # Limits are not enforced for an ordinary user on cgroup v1; said here, as a user there would have to.
    [ -e /sys/fs/cgroup/cgroup.controllers ] || export MCP_BRIDGE_ALLOW_UNENFORCED=memory,pids
    CONTAINER_HOST=$TEST_ENGINE_PODMAN_ROOTLESS both_jobs "podman (rootless)" "$TEST_ENGINE_PODMAN_ROOTLESS"
  fi
  [ "$ran" = 1 ] || { echo "demo: no engine could be started; see above for what to install" >&2; exit 1; }
'
