#!/usr/bin/env bash
# A private Docker daemon: `docker.sh start DIR` and `docker.sh stop DIR`. It makes neither a
# network bridge nor iptables rules, and shares nothing with another daemon.
engine_name=docker
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

start() {
  local dir=$1 pid
  need_root
  need dockerd runc
  mkdir -p "$dir"
  chmod 711 "$dir"
  # The names of these folders show in a guest's mountinfo.
  setsid dockerd --host "unix://$dir/docker.sock" --data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/pid" \
    --bridge=none --iptables=false --ip6tables=false --shutdown-timeout 2 >"$dir/log" 2>&1 </dev/null 9>&- &
  pid=$!
  await_socket "$dir/docker.sock" "$pid" "$dir/log"
  printf 'TEST_ENGINE=unix://%s/docker.sock\nTEST_ENGINE_PID=%s\n' "$dir" "$(cat "$dir/pid")" >"$dir/env"
}

stop() {
  local dir=$1 pid
  pid=$(cat "$dir/pid" 2>/dev/null || :)
  if [ -n "$pid" ] && kill "$pid" 2>/dev/null; then
    for _ in $(seq 100); do
      [ -d "/proc/$pid" ] || break
      read -rt 0.1 <> <(:) || :
    done
  fi
  end_everything "$dir"
}

"$@"
