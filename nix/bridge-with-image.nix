# The bridge, told where the archive of its image lies. What the image has to be is built into the
# bridge; only an image of one's own (`override { guest-image = ...; }`, from guest-image.nix or
# oci-image.nix) brings its digests along.
{
  lib,
  stdenv,
  makeWrapper,
  runCommand,
  bridge-unwrapped,
  guest-image ? null,
  ociImage,
}:

let
  # No image is built on a Mac; its users name an archive themselves.
  image = if stdenv.hostPlatform.isLinux then guest-image else null;
  settings =
    lib.optional (image != null) "--set-default MCP_BRIDGE_IMAGE_ARCHIVE ${image.archive}"
    ++ lib.optional (
      image != null && !image.committed
    ) "--set-default MCP_BRIDGE_IMAGE_LOCK ${image.lock}";
in
runCommand "mcp-code-bridge-${bridge-unwrapped.version}"
  {
    inherit (bridge-unwrapped) pname version;
    nativeBuildInputs = [ makeWrapper ];
    passthru = {
      guest-image = image;
      inherit ociImage;
      unwrapped = bridge-unwrapped;
    };
    inherit (bridge-unwrapped) meta;
  }
  ''
    mkdir -p $out/bin
    ln -s ${bridge-unwrapped}/share $out/share
    ln -s ${bridge-unwrapped}/bin/guest-image $out/bin/
    makeWrapper ${lib.getExe bridge-unwrapped} $out/bin/mcp-code-bridge ${toString settings}
  ''
