#!/usr/bin/env bash
# Runs the Rust tests (unit and integration) with nextest, or with cargo's own runner where nextest
# could not be installed.
set -euo pipefail
cd "$(dirname "$0")/../.."
PATH=$(tests/setup/tools.sh):$PATH
TEST_PYTHON=$(tests/setup/python.sh)
TEST_SERVERS=$(tests/setup/servers.sh)
TEST_WHEELS=$(tests/setup/wheels.sh)
export PATH TEST_PYTHON TEST_SERVERS TEST_WHEELS
images=${TEST_IMAGE_DIR:-tests/.cache/image}
if [ -n "${TEST_ENGINES_FOLDER:-}" ]; then
  # The rootless engine's user can read them here, whoever owns the clone.
  mkdir -p "$TEST_ENGINES_FOLDER/files"
  chmod 755 "$TEST_ENGINES_FOLDER/files"
  cp target/debug/mcp-code-bridge target/debug/guest-image target/debug/stub-server "$TEST_ENGINES_FOLDER/files/"
  install -m 644 "$(head -n 1 "$images/built")" "$TEST_ENGINES_FOLDER/files/guest.tar"
  export TEST_BRIDGE=$TEST_ENGINES_FOLDER/files/mcp-code-bridge TEST_STUB=$TEST_ENGINES_FOLDER/files/stub-server TEST_IMAGE_ARCHIVE=$TEST_ENGINES_FOLDER/files/guest.tar
  if [ -e "$images/lock" ]; then
    lock=$(cat "$images/lock")
    install -m 644 "$lock" "$TEST_ENGINES_FOLDER/files/lock.json"
    install -m 644 "${lock%.json}.digest.json" "$TEST_ENGINES_FOLDER/files/lock.digest.json"
    export TEST_IMAGE_LOCK=$TEST_ENGINES_FOLDER/files/lock.json
  fi
fi
if cargo nextest --version >/dev/null 2>&1; then
  exec cargo nextest run --workspace "$@"
fi
exec cargo test --workspace --no-fail-fast -- --test-threads 2 "$@"
