#!/usr/bin/env bash
# Builds the guest image into a folder, from the committed lock: `image.sh OUT`. OUT/built then
# holds the archive's path and the image's digest.
#
# Where a pinned input is gone from everywhere, it says so, and with IMAGE_REFRESH=1 (make demo)
# goes on with a lock refreshed on this machine: OUT/lock then names it, for MCP_BRIDGE_IMAGE_LOCK.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$1
mkdir -p "$out"
program=${GUEST_IMAGE_PROGRAM:-target/debug/guest-image}
# The lock and the runtime are part of the program, so it is all that the image depends on.
stamp=$(sha256sum <"$program")
if [ "$(cat "$out/.stamp" 2>/dev/null)" = "$stamp" ] && [ -f "$(head -n 1 "$out/built")" ]; then
  echo "image: $(tail -n 1 "$out/built") as committed, built before"
  exit 0
fi
rm -f "$out/lock" "$out/.stamp"

status=0
"$program" build --out "$out" >"$out/built" || status=$?
if [ "$status" = 0 ]; then
  echo "$stamp" >"$out/.stamp"
  echo "image: $(tail -n 1 "$out/built") as committed"
  exit 0
fi
# 4: inputs unavailable. Other packages do not help with anything else.
if [ "$status" != 4 ] || [ -z "${IMAGE_REFRESH:-}" ]; then
  echo "image: could not be built as committed (exit $status)" >&2
  exit 1
fi

cache=${XDG_CACHE_HOME:-$HOME/.cache}/mcp-code-bridge
lock=$cache/refreshed/base.$(dpkg --print-architecture).json
mkdir -p "$(dirname "$lock")"
cat >&2 <<'TEXT'

****************************************************************************************************************
* The committed image cannot be built here: a pinned package is gone from every source. Going on with a lock    *
* refreshed from this machine's own Debian mirror (checked by apt's signatures). The image that this gives is   *
* NOT the one whose digest is committed.                                                                        *
****************************************************************************************************************

TEXT
"$program" lock --refresh --out "$lock"
"$program" build --lock "$lock" --out "$out" >"$out/built"
if [ "$(tail -n 1 "$out/built")" = "$("$program" digest | head -n 1)" ]; then
  echo "image: $(tail -n 1 "$out/built") as committed after all: what was gone is there again" >&2
  exit 0
fi
echo "$lock" >"$out/lock"
echo "image: $(tail -n 1 "$out/built"), NOT as committed, from the refreshed lock $lock" >&2
