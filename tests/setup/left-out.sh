#!/usr/bin/env bash
# Says that a check is left out on this machine: `left-out.sh WHAT WHY`. `.ci/run` names a file in
# CI_LEFT_OUT, which collects these lines for its closing summary.
set -euo pipefail
echo "setup: SKIPPED: $1: $2" >&2
[ -z "${CI_LEFT_OUT:-}" ] || echo "$1: $2" >>"$CI_LEFT_OUT"
