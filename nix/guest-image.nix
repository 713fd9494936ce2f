# The guest image, assembled by the project's own `guest-image` from downloads that the lock pins.
# It fails unless the image has the digest that is expected: the one committed beside the lock, or
# `expectedDigest`.
#
# `override` takes: `extraInputs`, more entries of the lock (wheels mostly); `lockFile`, a lock of
# one's own; `expectedDigest`, which both need (build once without, and it is told); `architecture`,
# an image for the other kind of machine; `snapshotArchive`, an address.
{
  lib,
  stdenv,
  fetchPypi,
  fetchurl,
  linkFarm,
  runCommand,
  vmTools ? { },
  writeText,
  bridge-unwrapped,
  architecture ? if stdenv.hostPlatform.isAarch64 then "arm64" else "amd64",
  lockFile ? ../guest-image/lock + "/base.${architecture}.json",
  extraInputs ? [ ],
  expectedDigest ? null,
  # Where superseded packages stay (`.../archive/debian`): what nixpkgs itself fetches Debian from.
  snapshotArchive ? lib.findFirst (lib.hasInfix "/archive/debian/") null (
    map (distribution: distribution.urlPrefix or "") (lib.attrValues (vmTools.debDistros or { }))
  ),
}:

let
  committedLock = architecture: ../guest-image/lock + "/base.${architecture}.json";
  base = lib.importJSON lockFile;
  # Sorted as the assembler wants it: packages before wheels, each by name.
  key = input: "${input.kind} ${input.name}";
  lock = base // {
    inputs = lib.sort (a: b: key a < key b) (base.inputs ++ extraInputs);
  };

  committed = extraInputs == [ ] && toString lockFile == toString (committedLock architecture);
  digestFile = lib.removeSuffix ".json" (toString lockFile) + ".digest.json";
  expected =
    if expectedDigest != null then
      expectedDigest
    else if extraInputs == [ ] && lib.pathExists digestFile then
      (lib.importJSON digestFile).manifest
    else
      "";

  # The archive's folder, whatever moment follows.
  archive = lib.optionals (snapshotArchive != null) (
    builtins.match "(.*/archive/debian)(/.*)?" snapshotArchive
  );
  fetch = {
    deb =
      input:
      fetchurl {
        name = lib.strings.sanitizeDerivationName (baseNameOf input.url);
        urls = [
          input.url
        ]
        ++ lib.optional (archive != [ ]) (
          lib.replaceStrings [ "mirror://debian" ] [ "${lib.head archive}/${base.snapshot}" ] input.url
        );
        inherit (input) sha256;
      };
    wheel =
      input:
      let
        tags = lib.splitString "-" input.tags;
      in
      fetchPypi {
        pname = lib.replaceStrings [ "-" ] [ "_" ] input.name;
        inherit (input) version sha256;
        format = "wheel";
        dist = lib.head tags;
        python = lib.head tags;
        abi = lib.elemAt tags 1;
        platform = lib.elemAt tags 2;
      };
  };
  # An image for the other kind of machine is compiled by the Python of this one.
  builder = if stdenv.buildPlatform.isAarch64 then "arm64" else "amd64";
  helpers = lib.optionals (base.architecture != builder) (
    (lib.importJSON (committedLock builder)).inputs
  );
  # By their sums: versions have characters that names in the store cannot have.
  inputs = linkFarm "guest-inputs" (
    lib.listToAttrs (
      map (input: lib.nameValuePair input.sha256 (fetch.${input.kind} input)) (lock.inputs ++ helpers)
    )
  );

  image =
    runCommand "mcp-code-bridge-guest-image"
      {
        nativeBuildInputs = [ bridge-unwrapped ];
        lock = if extraInputs == [ ] then lockFile else writeText "guest-lock.json" (builtins.toJSON lock);
        inherit expected inputs;
        passthru = {
          inherit committed inputs;
          digest = expected;
          archive = "${image}/guest.tar";
          lock = "${image}/lock.json";
          # What an image of another make has to run: `python3.14 -I -S .../entry.py`.
          runtime = ../guest-image/runtime;
        };
        meta = {
          description = "Guest image of mcp-code-bridge: its archive, lock and digests";
          platforms = lib.platforms.linux;
        };
      }
      ''
        mkdir $out
        cp "$lock" $out/lock.json
        chmod u+w $out/lock.json
        export XDG_CACHE_HOME=$PWD/cache
        guest-image build --lock $out/lock.json --offline --inputs "$inputs" --out made >built 2>log || { cat log >&2; exit 1; }
        found=$(tail -n 1 built)
        if [ "$found" != "$expected" ]; then
          echo "guest image: found $found, expected ''${expected:-a digest: an image of your own needs expectedDigest}" >&2
          exit 1
        fi
        mv made/*.tar $out/guest.tar
      '';
in
image
