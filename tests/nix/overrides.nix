# What people may do with the packages, over the stand-in for nixpkgs: `accepted` has to build,
# `refused` has to fail, each with these words.
#
# `source` is the flake's tree; `digest` the one of what is accepted, which is not committed: the
# build without it tells it.
{
  source,
  digest ? "",
  system ? builtins.currentSystem,
}:
let
  pkgs = import (source + "/tests/nix/host-pkgs") { inherit system; };
  inherit (pkgs) lib;
  own = import (source + "/nix/packages.nix") pkgs;
  image = own.guest-image;
  extraInputs = lib.importJSON ./extra-inputs.json;
  nothing = "sha256:${lib.concatStrings (lib.genList (_: "0") 64)}";

  layout =
    change:
    pkgs.runCommand "layout" { nativeBuildInputs = [ pkgs.jq ]; } ''
      mkdir $out
      tar xf ${image.archive} -C $out
      cd $out
      ${change}
    '';
  tampered = layout ''
    manifest=blobs/sha256/$(jq -r '.manifests[0].digest' index.json | cut -d : -f 2)
    echo tampered >>blobs/sha256/$(jq -r '.layers[1].digest' $manifest | cut -d : -f 2)
  '';
  # A lock with one entry changed.
  lockWith =
    change:
    let
      lock = lib.importJSON (source + "/guest-image/lock/base.amd64.json");
    in
    builtins.toFile "lock.json" (
      builtins.toJSON (lock // { inputs = [ (lib.head lock.inputs // change) ] ++ lib.tail lock.inputs; })
    );
in
{
  accepted = {
    extra-input = pkgs.callPackage (source + "/nix/tests/guest-smoke.nix") {
      guest-image = image.override {
        inherit extraInputs;
        expectedDigest = digest;
      };
      code = "import six; print(six.ensure_str(b'extra'))";
      prints = "extra";
    };
    docker-archive = pkgs.callPackage (source + "/nix/tests/guest-smoke.nix") {
      guest-image = own.ociImage {
        dockerArchive = image.archive;
        inherit digest;
      };
    };
  };

  refused = {
    extra-input-without-digest = {
      package = image.override { inherit extraInputs; };
      says = "expected a digest: an image of your own needs expectedDigest";
    };
    image-with-wrong-digest = {
      package = image.override { expectedDigest = nothing; };
      says = "expected ${nothing}";
    };
    # Only the name of the download in the store differs from the version; the sum is that of no
    # file.
    lock-with-tilde = {
      package = image.override {
        lockFile = lockWith {
          version = "1~2";
          sha256 = lib.removePrefix "sha256:" nothing;
          url = "mirror://debian/pool/main/c/x/x_1~2_all.deb";
        };
      };
      says = "x_1-2_all.deb is not in the store";
    };
    docker-archive-without-digest = {
      package = own.ociImage { dockerArchive = image.archive; };
      says = "expected a digest: an image of your own needs one";
    };
    own-image-without-digest = {
      package = own.ociImage { layout = layout ""; };
      says = "expected a digest: an image of your own needs one";
    };
    own-image-with-wrong-digest = {
      package = own.ociImage {
        layout = layout "";
        digest = nothing;
      };
      says = "expected ${nothing}";
    };
    own-image-tampered = {
      package = own.ociImage {
        layout = tampered;
        inherit (image) digest;
      };
      says = "is not what it says";
    };
  };
}
