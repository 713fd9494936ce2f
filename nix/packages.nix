# The project's packages as a function of any nixpkgs instance: the one source for the flake's
# packages and its overlay.
pkgs:
let
  callPackage = pkgs.lib.callPackageWith (pkgs // own);
  own = {
    # The bridge that knows where its image's archive lies.
    bridge = callPackage ./bridge-with-image.nix { };
    bridge-unwrapped = callPackage ./bridge.nix { };
    guest-image =
      if pkgs.stdenv.hostPlatform.isLinux then
        callPackage ./guest-image.nix { }
      else
        throw ''
          The guest image is made of Linux programs and compiled by its own Python, so it is built on Linux only. On a Mac let a
          Linux builder do it: nix build .#packages.aarch64-linux.guest-image
          and name the result: export MCP_BRIDGE_IMAGE_ARCHIVE=$PWD/result/guest.tar'';
    # A function: any OCI layout, verified and made ready for
    # `bridge.override { guest-image = ...; }`.
    ociImage = callPackage ./oci-image.nix;
  };
in
own
