# An image of one's own for the bridge: an OCI layout, or an archive of dockerTools, whose manifest
# has the digest given. Every blob is hashed here; before each session the bridge compares the
# engine's image with these digests, as it does with those built into it.
{
  lib,
  runCommand,
  jq,
  skopeo,
  # A folder with index.json and blobs/, its layers uncompressed; or
  layout ? null,
  # what dockerTools.buildImage or buildLayeredImage makes.
  dockerArchive ? null,
  # sha256:... of the manifest. Build once without, and it is told.
  digest ? "",
}:

assert lib.assertMsg (
  (layout == null) != (dockerArchive == null)
) "ociImage: give either layout or dockerArchive";
let
  image =
    runCommand "mcp-code-bridge-own-image"
      {
        nativeBuildInputs = [ jq ] ++ lib.optional (dockerArchive != null) skopeo;
        inherit digest;
        source = if layout != null then layout else dockerArchive;
        passthru = {
          inherit digest;
          committed = false;
          archive = "${image}/guest.tar";
          lock = "${image}/lock.json";
        };
        meta.description = "Guest image of one's own for mcp-code-bridge";
      }
      ''
        fail() { echo "own image: $*" >&2; exit 1; }
        blob() { echo "layout/blobs/sha256/''${1#sha256:}"; }
        ${
          if layout != null then
            "cp -rL --no-preserve=mode $source layout"
          else
            "skopeo --insecure-policy --tmpdir . copy --quiet --dest-oci-accept-uncompressed-layers docker-archive:$source oci:layout"
        }
        [ "$(jq '.manifests | length' layout/index.json)" = 1 ] || fail "the layout has to hold one image"
        manifest=$(jq -r '.manifests[0].digest' layout/index.json)
        [ "$manifest" = "$digest" ] || fail "found $manifest, expected ''${digest:-a digest: an image of your own needs one}"
        config=$(jq -r .config.digest "$(blob "$manifest")")
        mapfile -t layers < <(jq -r '.layers[].digest' "$(blob "$manifest")")
        for digest in "$manifest" "$config" "''${layers[@]}"; do
          echo "''${digest#sha256:} $(blob "$digest")" | sha256sum --check --quiet >&2 || fail "$digest is not what it says"
        done
        [ "$(jq -r '.rootfs.diff_ids[]' "$(blob "$config")")" = "$(printf '%s\n' "''${layers[@]}")" ] || fail "layers have to be uncompressed"

        mkdir $out archive archive/blobs archive/blobs/sha256
        cp layout/index.json archive/
        echo '{"imageLayoutVersion":"1.0.0"}' >archive/oci-layout
        for digest in "$manifest" "$config" "''${layers[@]}"; do cp "$(blob "$digest")" archive/blobs/sha256/; done
        jq -cn --arg config "blobs/sha256/''${config#sha256:}" \
          '[{Config: $config, Layers: $ARGS.positional | map(sub("sha256:"; "blobs/sha256/")), RepoTags: ["localhost/mcp-code-bridge-guest:own"]}]' \
          --args "''${layers[@]}" >archive/manifest.json
        tar cf $out/guest.tar -C archive --sort=name --mtime=@1 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX oci-layout index.json manifest.json blobs
        jq --arg manifest "$manifest" --arg config "$config" \
          '{schema: 1, flavour: "own", architecture, lock: $manifest, runtime: $manifest, manifest: $manifest, config: $config, diff_ids: .rootfs.diff_ids}' \
          "$(blob "$config")" >$out/lock.digest.json
      '';
in
image
