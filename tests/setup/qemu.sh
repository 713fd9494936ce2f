#!/usr/bin/env bash
# Unpacks qemu-system-x86 and its dependencies into a folder, for machines on which apt cannot
# install it beside other packages: `qemu.sh DIR`; then `DIR/run ARGUMENTS...` is
# qemu-system-x86_64.
set -euo pipefail
dir=$1
rm -rf "$dir"
mkdir -p "$dir/debs" "$dir/root"
echo "setup: unpacking qemu into $dir (installing it would remove other packages) ..." >&2
# The packages that apt would add on this machine.
mapfile -t packages < <(apt-get install --simulate --no-install-recommends qemu-system-x86 | sed -n 's/^Inst \([^ ]*\) .*/\1/p')
[ ${#packages[@]} -gt 0 ] || packages=(qemu-system-x86 qemu-system-common qemu-system-data seabios ipxe-qemu)
if [ "$(id -u)" = 0 ]; then sandbox=(-o APT::Sandbox::User=root); else sandbox=(); fi
(cd "$dir/debs" && apt-get download -qq "${sandbox[@]}" "${packages[@]}")
for deb in "$dir"/debs/*.deb; do dpkg-deb -x "$deb" "$dir/root"; done
rm -rf "$dir/debs"
cat >"$dir/run" <<'RUN'
#!/bin/sh
root=$(cd "$(dirname "$0")/root" && pwd)
libraries=$(find "$root/usr/lib" "$root/lib" -maxdepth 1 -type d -name '*-linux-gnu*' 2>/dev/null | tr '\n' ':')
LD_LIBRARY_PATH=$libraries QEMU_MODULE_DIR=$(find "$root/usr/lib" -type d -name qemu | head -n 1) \
  exec "$root/usr/bin/qemu-system-x86_64" -L "$root/usr/share/seabios" -L "$root/usr/share/qemu" -L "$root/usr/lib/ipxe/qemu" "$@"
RUN
chmod +x "$dir/run"
"$dir/run" --version | head -n 1 >&2
