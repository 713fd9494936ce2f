#!/usr/bin/env bash
# Unpacks Debian's Nix into a folder: `install-nix.sh PREFIX [SUITE]`. apt resolves and downloads
# with a state of its own, so that no package of this machine changes.
set -euo pipefail
prefix=$1 suite=${2:-trixie}
case $(uname -m) in
  x86_64) loader=ld-linux-x86-64.so.2 ;;
  aarch64) loader=ld-linux-aarch64.so.1 ;;
  *) echo "install-nix: unsupported machine $(uname -m): use x86_64 or aarch64" >&2; exit 1 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

own() { apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Created-By: Packages' | head -n 1; }
mirror=$(own)
[ -n "$mirror" ] || { apt-get update -qq; mirror=$(own); }
[ -n "$mirror" ] || { echo "install-nix: apt knows no Debian mirror: add one to its sources" >&2; exit 1; }

mkdir -p "$work"/{etc/{apt.conf.d,preferences.d},lists/partial,archives/partial,root}
: >"$work/status" # nothing is installed: everything that Nix needs is fetched
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$work/sources.list"
cat >"$work/apt.conf" <<CONF
Dir::Etc "$work/etc"; Dir::Etc::SourceList "$work/sources.list"; Dir::State::Lists "$work/lists"; Dir::State::Status "$work/status";
Dir::Cache "$work"; Dir::Cache::Archives "$work/archives"; APT::Install-Recommends "false"; APT::Sandbox::User "root"; Acquire::Languages "none";
CONF
export APT_CONFIG=$work/apt.conf
apt-get update -qq
apt-get install -qq -y --download-only nix-bin busybox-static >/dev/null
for deb in "$work"/archives/{nix-bin,busybox-static,zlib1g,lib}*.deb; do dpkg-deb -x "$deb" "$work/root"; done

rm -rf "$prefix"
mkdir -p "$prefix/bin"
cp -a "$(find "$work/root" -name "$loader" -type f -printf '%h\n')" "$prefix/lib"
rm -rf "$prefix"/lib/{perl*,gconv}
install -m755 "$work/root/usr/bin/nix" "$work/root/usr/bin/busybox" "$prefix/bin/"
# The kernel has to start the program itself, not the loader: Nix looks at /proc/self/exe.
patchelf --set-interpreter "$prefix/lib/$loader" --force-rpath --set-rpath "$prefix/lib" "$prefix/bin/nix"
for name in build hash instantiate store; do ln -s nix "$prefix/bin/nix-$name"; done
