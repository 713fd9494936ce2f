{ profile }:
let
  lib = import ./lib;
in
{
  inherit lib;
  legacyPackages = lib.genAttrs [
    "x86_64-linux"
    "aarch64-linux"
    "aarch64-darwin"
  ] (system: import ./. { inherit system profile; });
}
