# Unpacks an image and runs code in it, in fresh namespaces, through the protocol: without an
# engine, inside the build sandbox.
{
  bubblewrap,
  jq,
  python3,
  runCommand,
  guest-image,
  code ? "import ssl, sqlite3, zoneinfo, compression.zstd; print(6 * 7)",
  prints ? "42",
}:

runCommand "guest-smoke"
  {
    nativeBuildInputs = [
      bubblewrap
      jq
      python3
    ];
    image = guest-image;
    inherit code prints;
  }
  ''
    blob() { echo "layout/blobs/sha256/''${1#sha256:}"; }
    mkdir layout root
    tar xf $image/guest.tar -C layout
    manifest=$(blob "$(jq -r '.manifests[0].digest' layout/index.json)")
    for layer in $(jq -r '.layers[].digest' "$manifest"); do tar xf "$(blob "$layer")" -C root; done
    jq .config "$(blob "$(jq -r .config.digest "$manifest")")" >config.json
    python3 ${./guest_smoke.py} root config.json "$code" "$prints" | tee $out
  ''
