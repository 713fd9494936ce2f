# The three places that name the image agree: the file that is committed, the bridge, and the
# archive that the bridge is given.
{
  jq,
  runCommand,
  bridge,
}:

runCommand "digests"
  {
    nativeBuildInputs = [
      bridge
      jq
    ];
    image = bridge.guest-image;
    committed = bridge.guest-image.digest;
  }
  ''
    built_in=$(mcp-code-bridge image digest)
    archive=$(tar xOf $image/guest.tar index.json | jq -r '.manifests[0].digest')
    printf 'committed %s\nbuilt in  %s\narchive   %s\n' "$committed" "$built_in" "$archive" | tee $out
    [ "$committed" = "$built_in" ] && [ "$committed" = "$archive" ]
    grep -q "MCP_BRIDGE_IMAGE_ARCHIVE.*$image/guest.tar" ${bridge}/bin/mcp-code-bridge
    ! grep -q MCP_BRIDGE_IMAGE_LOCK ${bridge}/bin/mcp-code-bridge
    guest-image verify $image/guest.tar 2>&1 | cat
  ''
