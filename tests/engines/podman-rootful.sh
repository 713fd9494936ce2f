#!/usr/bin/env bash
# Podman's Docker-compatible API as root, with a private store: `podman-rootful.sh start DIR` and
# `podman-rootful.sh stop DIR`.
engine_name=podman-rootful
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

configure() { # DIR
  # By default podman asks for higher limits than a root without CAP_SYS_RESOURCE may set.
  local files
  files=$(ulimit -Hn)
  [ "$files" != unlimited ] || files=1048576
  cat >"$1/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=$files:$files", "nproc=4096:4096"]
CONF
  podman_configuration "$1"
}

podman_in() { # DIR ARGUMENTS...
  local dir=$1
  shift
  # Conmon may write a file `oom` into its working directory.
  exec env -i -C "$dir" PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME="$dir" TMPDIR="$dir/tmp" CONTAINERS_CONF="$dir/containers.conf" \
    CONTAINERS_STORAGE_CONF="$dir/storage.conf" podman "$@"
}

start() {
  local dir=$1
  need_root
  need podman conmon
  mkdir -p "$dir/tmp"
  chmod 711 "$dir"
  configure "$dir"
  serve_podman "$dir" "$dir/log"
}

stop() {
  local dir=$1
  [ ! -e "$dir/containers.conf" ] || (podman_in "$dir" rm --all --force --time 0) >/dev/null 2>&1 || :
  end_everything "$dir"
}

"$@"
