{
  description = "What stands in for nixpkgs in tests: its interface over this machine's programs. Rust is built without optimisation";
  outputs = _: import ./outputs.nix { profile = "dev"; };
}
