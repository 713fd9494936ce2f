# An OCI layout from elsewhere (here: the guest image's own) passes through ociImage, and the bridge
# that is given it expects its digests.
{
  runCommand,
  bridge,
}:

let
  layout = runCommand "layout" { } ''
    mkdir $out
    tar xf ${bridge.guest-image.archive} -C $out
    rm $out/manifest.json
  '';
  own = bridge.ociImage {
    inherit layout;
    inherit (bridge.guest-image) digest;
  };
  # Its digests come from beside the lock that the wrapper names.
  bridgeOfOwn = bridge.override { guest-image = own; };
in
runCommand "own-image" { nativeBuildInputs = [ bridgeOfOwn ]; } ''
  grep -q "MCP_BRIDGE_IMAGE_LOCK.*${own.lock}" ${bridgeOfOwn}/bin/mcp-code-bridge
  mcp-code-bridge image digest | tee $out
  [ "$(cat $out)" = ${own.digest} ]
  guest-image verify ${own.archive} --lock ${own.lock} 2>&1 | cat
''
