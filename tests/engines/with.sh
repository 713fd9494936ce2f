#!/usr/bin/env bash
# Runs a command while private engines are up: `with.sh docker podman-rootful podman-rootless --
# COMMAND...`.
#
# The command finds their addresses in TEST_ENGINE_DOCKER, TEST_ENGINE_PODMAN_ROOTFUL and
# TEST_ENGINE_PODMAN_ROOTLESS, and their folders in the same names with _DIR appended.
# TEST_ENGINES_FOLDER is a folder that is removed with them. An engine that cannot be started is a
# failure in CI, and elsewhere a line on stderr. However the command ends, the engines are ended
# with everything that they started; the command's exit status is this script's.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

base=$(mktemp -d "${TEST_ENGINES_BASE:-/tmp}/mcb.XXXX")
chmod 711 "$base"
export TEST_ENGINES_FOLDER=$base
started=()

end() {
  local status=$? engine
  trap - EXIT
  trap '' INT TERM HUP
  for engine in "${started[@]}"; do "$here/$engine.sh" stop "$base/$engine"; done
  rm -rf "$base"
  exit "$status"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

while [ $# -gt 0 ] && [ "$1" != -- ]; do
  engine=$1
  started+=("$engine")
  if "$here/$engine.sh" start "$base/$engine"; then
    name=TEST_ENGINE_$(tr a-z- A-Z_ <<<"$engine")
    export "$name=$(sed -n 's/^TEST_ENGINE=//p' "$base/$engine/env")" "${name}_DIR=$base/$engine"
  elif [ -n "${CI:-}" ]; then
    die "engine $engine could not be started: CI tests all of them"
  else
    say "SKIPPED: tests on $engine: it could not be started (see above)"
  fi
  shift
done
shift
"$@" &
command=$!
wait "$command"
