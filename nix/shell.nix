# What one needs to work on the bridge.
{
  mkShell,
  bridge-unwrapped,
  cargo-nextest,
  clippy,
  deadnix,
  jq,
  nixfmt,
  rustfmt,
}:

mkShell {
  inputsFrom = [ bridge-unwrapped ];
  packages = [
    cargo-nextest
    clippy
    deadnix
    jq
    nixfmt
    rustfmt
  ];
}
