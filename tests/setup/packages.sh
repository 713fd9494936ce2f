#!/usr/bin/env bash
# Installs the Debian packages that are missing: `packages.sh GROUP...`, where a group is build,
# engines, nix, python, servers or vm.
#
# It looks for programs, not for packages, so an engine from elsewhere will do. It installs as root,
# or with a sudo that asks for no password; otherwise it prints the command to run, and fails. It
# never lets apt remove anything.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)

missing=()
want() { # PROGRAM PACKAGE
  command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ] || missing+=("$2")
}

for group in "$@"; do
  case $group in
    build) want cc gcc; [ -e /usr/include/stdio.h ] || missing+=(libc6-dev) ;;
    engines)
      want dockerd docker.io; want containerd containerd; want runc runc; want podman podman; want conmon conmon
      want newuidmap uidmap; want setpriv util-linux; want umount mount; want ps procps
      ;;
    python)
      want python3 python3
      python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
      ;;
    nix) want bwrap bubblewrap; want git git; want jq jq; want patchelf patchelf; want skopeo skopeo ;;
    servers) want node nodejs; want npm npm; want git git ;;
    vm)
      want debootstrap debootstrap; want mke2fs e2fsprogs
      [ -x "$root/tests/.cache/qemu/run" ] || want qemu-system-x86_64 qemu-system-x86
      ;;
    *) echo "packages.sh: unknown group \"$group\": use build, engines, nix, python, servers or vm" >&2; exit 2 ;;
  esac
done
[ ${#missing[@]} -gt 0 ] || exit 0
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)

if ! command -v apt-get >/dev/null; then
  echo "setup: missing packages: ${missing[*]} (Debian's names): install them with this system's package manager" >&2
  exit 1
fi
if [ "$(id -u)" = 0 ]; then as_root=(); elif sudo -n true 2>/dev/null; then as_root=(sudo); else
  echo "setup: missing packages: ${missing[*]}: $(id -un) may not install them; run" >&2
  echo "    sudo apt-get update && sudo apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi

echo "setup: installing ${missing[*]} ..." >&2
options=(-o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 -y -qq --no-install-recommends --no-remove)
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "$@"; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# An update that fails for one source may have brought what is needed from another: the install
# decides.
apt update -qq >"$log" 2>&1 || echo "setup: apt-get update reported errors; continuing" >&2

# The release's qemu conflicts with a qemu-utils from backports; it is then unpacked into a folder
# (qemu.sh).
rest=()
for package in "${missing[@]}"; do
  if [ "$package" = qemu-system-x86 ] && ! apt install --simulate "${options[@]}" "$package" >>"$log" 2>&1; then
    "$root/tests/setup/qemu.sh" "$root/tests/.cache/qemu"
  else
    rest+=("$package")
  fi
done
[ ${#rest[@]} -gt 0 ] || exit 0
apt install "${options[@]}" "${rest[@]}" >>"$log" 2>&1 || { tail -n 30 "$log" >&2; echo "setup: could not install ${rest[*]}: see apt's output above" >&2; exit 1; }
