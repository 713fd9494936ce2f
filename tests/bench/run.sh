#!/usr/bin/env bash
# Runs the benchmarks with release builds, on the engines that `engines/with.sh` has started.
set -euo pipefail
cd "$(dirname "$0")/../.."
images=${TEST_IMAGE_DIR:-tests/.cache/image}
mkdir -p "$TEST_ENGINES_FOLDER/files"
chmod 755 "$TEST_ENGINES_FOLDER/files"
cp target/release/mcp-code-bridge target/release/stub-server "$TEST_ENGINES_FOLDER/files/"
TEST_PYTHON=$(tests/setup/python.sh)
install -m 644 "$(head -n 1 "$images/built")" "$TEST_ENGINES_FOLDER/files/guest.tar"
export TEST_PYTHON TEST_STUB=$TEST_ENGINES_FOLDER/files/stub-server TEST_BRIDGE=$TEST_ENGINES_FOLDER/files/mcp-code-bridge TEST_IMAGE_ARCHIVE=$TEST_ENGINES_FOLDER/files/guest.tar
exec target/release/bridge-bench "$@"
