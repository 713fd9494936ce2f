# shellcheck shell=bash
# Shared by the engine scripts: the layout of an engine's folder, and an end that leaves nothing
# behind.
#
# Every engine has a folder of its own, with a short path, since a socket's path is limited to 107
# bytes. `DIR/env` is written once the engine answers, with its address in TEST_ENGINE. Everything
# that the engine starts has DIR in its command line, which is how `end_everything` finds it.

set -euo pipefail

# shellcheck disable=SC2034  # used by podman-rootless.sh
engine_user=mcb-test
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf '%s: %s\n' "${engine_name:-engines}" "$*" >&2; }
die() { say "$*"; exit 1; }

need_root() { [ "$(id -u)" = 0 ] || die "root is needed: run it as root, or with sudo"; }
need() {
  local program
  for program in "$@"; do
    command -v "$program" >/dev/null || die "$program is not installed: run \`make setup\` as root"
  done
}

cgroup_v1() { [ ! -e /sys/fs/cgroup/cgroup.controllers ]; }

# Writes storage.conf and completes containers.conf, whose table [containers] is still open, so that
# plain `podman` works in DIR.
podman_configuration() { # DIR
  {
    printf 'log_driver = "k8s-file"\n[engine]\nevents_logger = "file"\ncgroup_manager = "cgroupfs"\ntmp_dir = "%s/tmp"\n' "$1"
    if cgroup_v1; then echo 'runtime = "runc"'; fi # crun refuses hybrid hierarchies
  } >>"$1/containers.conf"
  printf '[storage]\ndriver = "overlay"\ngraphroot = "%s/root"\nrunroot = "%s/run"\n' "$1" "$1" >"$1/storage.conf"
}

# Waits until a socket answers the engine API's ping.
await_socket() { # SOCKET PID LOG
  local socket=$1 pid=$2 log=$3
  for _ in $(seq 600); do
    if [ -S "$socket" ] && python3 "$here/ping.py" "$socket" 2>/dev/null; then return; fi
    [ -d "/proc/$pid" ] || { tail -n 20 "$log" >&2; die "ended at its start: see its log above"; }
    read -rt 0.05 <> <(:) || :
  done
  tail -n 20 "$log" >&2
  die "did not answer within 30 s: see its log above"
}

# Starts Podman's API in DIR with the script's own `podman_in`, and waits until it answers.
serve_podman() { # DIR LOG
  (exec setsid "$0" podman_in "$1" system service --time 0 "unix://$1/podman.sock" >"$2" 2>&1 </dev/null 9>&-) &
  local pid=$!
  await_socket "$1/podman.sock" "$pid" "$2"
  printf 'TEST_ENGINE=unix://%s/podman.sock\nTEST_ENGINE_PID=%s\n' "$1" "$pid" >"$1/env"
}

# Prints the ids of engine programs that have DIR in their command line, and of their descendants.
processes_of() { # DIR
  python3 "$here/processes.py" "$1"
}

end_everything() { # DIR
  local dir=$1 pids
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    pids=$(processes_of "$dir")
    [ -n "$pids" ] || break
    # shellcheck disable=SC2086
    kill -KILL $pids 2>/dev/null || :
    read -rt 0.1 <> <(:) || :
  done
  [ -z "$pids" ] || say "still running: $pids"
  for _ in 1 2 3; do # a mount may hide another
    awk -v dir="$dir/" 'index($2, dir) == 1 { print $2 }' /proc/self/mounts | sort -r | while read -r mount; do
      umount -l "$mount" 2>/dev/null || :
    done
  done
  rm -rf "$dir" 2>/dev/null || :
  [ ! -e "$dir" ] || say "could not remove $dir"
}
