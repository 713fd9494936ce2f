#!/usr/bin/env bash
# What is checked without building anything: spelling (typos), shell scripts (shellcheck), unused
# dependencies (cargo-shear), and which crates may be used under which licences (cargo-deny).
#
# A program that cannot be had on this machine is left out, and said.
set -euo pipefail
cd "$(dirname "$0")/../.."
PATH=$(tests/setup/tools.sh):$PATH
failed=()

check() { # PROGRAM COMMAND...
  local program=$1 start=$SECONDS
  shift
  if ! command -v "$program" >/dev/null; then
    tests/setup/left-out.sh "$program" "it could not be installed on this machine"
    return
  fi
  if "$@"; then echo "sources: $program found nothing ($((SECONDS - start)) s)"; else failed+=("$program"); fi
}

mapfile -t scripts < <(git ls-files | while read -r file; do
  if [ -f "$file" ] && head -n 1 "$file" | grep -Eq '^#!.*\b(sh|bash)\b|^# shellcheck shell='; then echo "$file"; fi
done)

check typos typos
check shellcheck shellcheck --external-sources --source-path=SCRIPTDIR "${scripts[@]}"
check cargo-shear cargo shear --deny-warnings
check cargo-deny cargo deny --log-level error check --hide-inclusion-graph bans licenses sources

[ ${#failed[@]} -eq 0 ] || { echo "sources: failed: ${failed[*]}" >&2; exit 1; }
