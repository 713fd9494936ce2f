# What `nix flake check` builds: the packages, and the tests of nix/tests.
{
  self,
  system,
  pkgs,
}:

let
  inherit (pkgs) lib;
  own = self.packages.${system};
  image = own.guest-image;
  other = if pkgs.stdenv.hostPlatform.isAarch64 then "amd64" else "arm64";
in
{
  bridge = own.default;
  inherit (own) bridge-unwrapped guest-image;
  # The image for the other kind of machine, against its own committed digest.
  guest-image-other = image.override { architecture = other; };
  guest-smoke = pkgs.callPackage ./tests/guest-smoke.nix { guest-image = image; };
  digests = pkgs.callPackage ./tests/digests.nix { bridge = own.default; };
  own-image = pkgs.callPackage ./tests/own-image.nix { bridge = own.default; };
  modules = pkgs.callPackage ./tests/modules.nix { inherit self; };
  units = pkgs.callPackage ./tests/units.nix { inherit self; };
}
# Not where a stand-in for nixpkgs has no NixOS.
// lib.optionalAttrs (pkgs ? testers) {
  vm = pkgs.callPackage ./tests/vm.nix { inherit self; };
}
