# `make demo` shows the product, `make test` proves it. Both install what is missing, or say what to
# run where they may not (tests/setup).
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# Programs that recipes start take no part in make's own job control (make -j).
unexport MAKEFLAGS

ENGINES ?= docker podman-rootful podman-rootless
NIX_ENGINE ?= $(if $(filter 0,$(shell id -u)),podman-rootful,podman-rootless)
OUT     := tests/.cache/image
export GUEST_IMAGE_INPUTS
# Where the toolchain of rust-toolchain.toml is not installed.
toolchain := $(shell tests/setup/toolchain.sh)
ifneq ($(toolchain),)
export RUSTUP_TOOLCHAIN := $(toolchain)
endif

# Everything that `make help` lists.
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*\#\# .*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1@\2/p' $(MAKEFILE_LIST) | column -t -s @

setup: ## install what tests and demo need (engines, Rust tools, the tests' Python)
	@tests/setup/packages.sh build engines python
	@tests/setup/rust.sh
	@tests/setup/python.sh >/dev/null
	@tests/setup/tools.sh >/dev/null

setup-vm: ## install what the virtual machine needs
	@tests/setup/packages.sh vm

# Always the whole workspace: building single packages changes features, and rebuilds half of the
# dependencies. Tests need other features of dependencies than programs alone; `make test` builds
# with them from the start.
test: TARGETS = --all-targets

build: setup ## debug build
	@cargo build --workspace $(TARGETS)

release: ## release build; the bridge may have 15 MB
	@tests/setup/rust.sh
	@cargo build --workspace --release
	@size=$$(stat -c %s target/release/mcp-code-bridge); echo "release: mcp-code-bridge has $$size bytes"; [ "$$size" -le 15000000 ]

image: build ## build the guest image from its lock, and compare it with the committed digest
	@tests/setup/image.sh $(OUT)

fmt: setup ## rustfmt: is everything formatted?
	@tests/setup/check-rust.sh fmt

# After the build, so that the image can be made meanwhile (make -j2).
lint: build ## clippy (pedantic) and rustdoc, no warnings
	@tests/setup/check-rust.sh clippy
	@tests/setup/check-rust.sh doc

sources: setup ## typos, shellcheck, cargo-shear (unused dependencies), cargo-deny (licences, banned crates)
	@tests/setup/check-sources.sh

advisories: ## known vulnerabilities of dependencies; cargo-deny downloads their database
	@"$$(tests/setup/tools.sh)/cargo-deny" --log-level warn check advisories

python: setup ## the guest's Python side on this machine's Python: ruff, mypy, pytest
	@tests/setup/check-python.sh

workflows: setup ## the workflows of GitHub: actionlint
	@tests/setup/check-workflows.sh

unit: ## the tests that take seconds and need no engine
	@tests/setup/unit.sh

manual: setup ## write the bridge's copy of the guest's manual (capability_summary)
	@PYTHONPATH=guest-image/runtime tests/.cache/venv/bin/python -B -c 'from _mcp_guest.api.manual import text; print(text(), end="")' >bridge/server/src/manual.md

reference: ## write what is made from the code: the pages of docs/src/reference, and the table of settings for Nix
	@cargo run --quiet --package bridge-settings --example nix_keys >bridge/settings/src/keys.json.new && mv bridge/settings/src/keys.json.new bridge/settings/src/keys.json
	@cargo run --quiet --package bridge-catalog --example client_names >bridge/catalog/src/clients.json.new && mv bridge/catalog/src/clients.json.new bridge/catalog/src/clients.json
	@UPDATE_REFERENCE=1 cargo test --quiet --package bridge-reference --lib committed_pages >/dev/null && git status --short docs/src/reference bridge/settings/src/keys.json bridge/catalog/src/clients.json

links: ## are the links of all Markdown files right, and is every page of the book in its summary?
	@python3 docs/check-links.py

docs: links ## build the book into target/book; needs mdBook
	@command -v mdbook >/dev/null || { echo "docs: mdbook not found: run cargo install --locked --no-default-features mdbook (3 minutes, once)" >&2; exit 1; }
	@mdbook build docs
	@echo "docs: target/book/index.html"

# The quick checks come first.
test: setup fmt sources links lint python workflows image ## all tests but those of Nix and of the virtual machine; engines: make test ENGINES="docker podman-rootless"
	@TEST_IMAGE_DIR=$(abspath $(OUT)) tests/engines/with.sh $(ENGINES) -- tests/setup/run-tests.sh

test-vm: setup setup-vm image ## the smoke tests on Debian 13 with systemd, cgroup v2 and rootless podman, in a virtual machine
	@TEST_IMAGE_DIR=$(abspath $(OUT)) tests/vm/test.sh

test-nix: setup image ## the flake: install Nix into tests/.cache, build and check everything without nixpkgs and network, run it on podman
	@tests/engines/with.sh $(NIX_ENGINE) -- tests/nix/with-nix.sh tests/nix/check.sh

test-nix-full: setup image ## test-nix with the optimised bridge and its unit tests, as nixpkgs builds it
	@tests/engines/with.sh $(NIX_ENGINE) -- tests/nix/with-nix.sh tests/nix/check.sh --full

test-nix-mutations: setup image ## does the flake's gate notice mistakes? (after make test-nix)
	@tests/nix/with-nix.sh tests/nix/mutations.sh

test-nix-vm: setup setup-vm image ## start the units of the NixOS and home-manager modules on Debian, in a virtual machine
	@tests/nix/with-nix.sh tests/nix/vm.sh

demo: export IMAGE_REFRESH = 1
demo: setup image ## the main job with the official Python SDK as the client, on the engines of this machine
	@tests/demo.sh $(OUT)

bench: setup release image ## speed and size beside the floor, in one run; JSON=1 for a machine
	@TEST_IMAGE_DIR=$(abspath $(OUT)) tests/engines/with.sh $(ENGINES) -- tests/bench/run.sh $(if $(JSON),--json)

clean: ## remove what the tests made (not cargo's target)
	rm -rf tests/.cache
