#!/usr/bin/env bash
# Podman's Docker-compatible API for an ordinary user, with a private store: `podman-rootless.sh
# start DIR` and `podman-rootless.sh stop DIR`. Started by root, it runs as a user made for it, with
# subordinate ids; started by anyone else, as that user.
engine_name=podman-rootless
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

# Runs a command in DIR's environment as the engine's user.
as_user() { # DIR COMMAND...
  local dir=$1 user=() home=$1/home
  shift
  if [ "$(id -u)" = 0 ]; then user=(setpriv --reuid "$engine_user" --regid "$engine_user" --init-groups --inh-caps=-all); fi
  exec "${user[@]}" env -i -C "$dir" HOME="$home" USER="$engine_user" PATH=/usr/bin:/usr/sbin:/bin:/sbin TMPDIR="$dir/tmp" \
    XDG_RUNTIME_DIR="$dir/xdg" CONTAINERS_CONF="$dir/containers.conf" CONTAINERS_STORAGE_CONF="$dir/storage.conf" "$@"
}

podman_in() { # DIR ARGUMENTS...
  local dir=$1
  shift
  as_user "$dir" podman "$@"
}

start() {
  local dir=$1
  need podman conmon newuidmap
  if [ "$(id -u)" = 0 ]; then
    id "$engine_user" >/dev/null 2>&1 || useradd --create-home --shell /usr/sbin/nologin "$engine_user"
    grep -q "^$engine_user:" /etc/subuid || die "user $engine_user has no subordinate ids: add a line to /etc/subuid and /etc/subgid"
  fi
  mkdir -p "$dir/tmp" "$dir/home" "$dir/xdg"
  echo '[containers]' >"$dir/containers.conf"
  podman_configuration "$dir"
  chmod 711 "$dir"
  if [ "$(id -u)" = 0 ]; then chown -R "$engine_user:" "$dir"; fi
  serve_podman "$dir" "$dir.log"
}

stop() {
  local dir=$1
  if [ -e "$dir/containers.conf" ]; then
    (podman_in "$dir" rm --all --force --time 0) >/dev/null 2>&1 || :
    # Layers belong to subordinate ids, which an ordinary user can only remove inside the user
    # namespace.
    (as_user "$dir" podman unshare rm -rf "$dir/root" "$dir/run") >/dev/null 2>&1 || :
  fi
  end_everything "$dir"
  rm -f "$dir.log"
}

"$@"
