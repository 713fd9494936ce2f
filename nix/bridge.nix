# The two programs: the bridge, and `guest-image`, which assembles and verifies its image. One build
# for both, since they share their dependencies.
{
  lib,
  stdenv,
  rustPlatform,
  installShellFiles,
}:

rustPlatform.buildRustPackage {
  pname = "mcp-code-bridge";
  inherit ((lib.importTOML ../Cargo.toml).workspace.package) version;

  # Of the member `tests` only the manifest, which Cargo.lock refers to.
  src = lib.fileset.toSource {
    root = ../.;
    fileset = lib.fileset.unions [
      ../Cargo.toml
      ../Cargo.lock
      ../bridge
      # Unit tests compare these pages with the code.
      ../docs/src/protocol.md
      ../docs/src/reference
      ../guest-image/Cargo.toml
      ../guest-image/build.rs
      ../guest-image/lock
      ../guest-image/runtime
      ../guest-image/runtime-tests/site-packages
      ../guest-image/src
      ../tests/Cargo.toml
    ];
  };

  cargoLock.lockFile = ../Cargo.lock;
  cargoBuildFlags = [
    "--package=mcp-code-bridge"
    "--package=guest-image"
  ];
  # What needs engines, inputs or a network is in the workspace's tests; here are the unit tests.
  cargoTestFlags = [
    "--workspace"
    "--exclude=integration-tests"
    "--lib"
  ];

  nativeBuildInputs = [ installShellFiles ];
  postInstall = lib.optionalString (stdenv.buildPlatform.canExecute stdenv.hostPlatform) ''
    bridge=$out/bin/mcp-code-bridge
    $bridge man >mcp-code-bridge.1
    installManPage mcp-code-bridge.1
    installShellCompletion --cmd mcp-code-bridge \
      --bash <($bridge completions bash) --zsh <($bridge completions zsh) --fish <($bridge completions fish)
  '';

  meta = {
    description = "MCP server with one tool, run_python: Python in a verified, persistent, hardened container";
    license = [
      lib.licenses.asl20
      lib.licenses.mit
    ];
    mainProgram = "mcp-code-bridge";
    platforms = lib.platforms.linux ++ lib.platforms.darwin;
  };
}
