{
  description = "The stand-in for nixpkgs that builds Rust as nixpkgs does, optimised, and runs unit tests";
  outputs = _: import ../outputs.nix { profile = "release"; };
}
