# rustPlatform with this machine's Rust. What nixpkgs does in one build takes two here: first the
# dependencies, from manifests and empty sources, so that a change of the project's own code (and
# `nix build --rebuild`) does not build them again.
{
  lib,
  profile,
  fetchurl,
  mkDerivation,
  runCommand,
}:
let
  folder = if profile == "dev" then "debug" else profile;

  importCargoLock =
    { lockFile, ... }:
    let
      crates = lib.filter (crate: crate ? source) (lib.importTOML lockFile).package;
      tarball =
        crate:
        fetchurl {
          name = "crate-${crate.name}-${crate.version}.tar.gz";
          url = "crate:${crate.name}";
          sha256 = crate.checksum;
        };
    in
    runCommand "cargo-vendor-dir"
      {
        list = lib.concatMapStrings (
          crate: "${crate.name}-${crate.version} ${crate.checksum} ${tarball crate}\n"
        ) crates;
        passAsFile = [ "list" ];
      }
      ''
        mkdir -p $out/.cargo
        printf '[source.crates-io]\nreplace-with = "vendored-sources"\n[source.vendored-sources]\ndirectory = "cargo-vendor-dir"\n' >$out/.cargo/config.toml
        while read -r name sum file; do
          mkdir $out/$name
          tar xzf $file -C $out/$name --strip-components=1
          echo "{\"files\":{},\"package\":\"$sum\"}" >$out/$name/.cargo-checksum.json
        done <"$listPath"
      '';

  # The workspace's manifests, with an empty file for each target that they name.
  skeleton =
    root:
    let
      # `folder/*` stands for all folders in it, as for cargo.
      expand =
        member:
        let
          folder = builtins.match "(.*)/[*]" member;
          name = builtins.head folder;
        in
        if folder == null then
          [ member ]
        else
          map (crate: "${name}/${crate}") (builtins.attrNames (builtins.readDir (root + "/${name}")));
      members = builtins.concatMap expand (lib.importTOML (root + "/Cargo.toml")).workspace.members;
      manifest = member: lib.importTOML (root + "/${member}/Cargo.toml");
      targets =
        member:
        let
          it = manifest member;
        in
        [ (it.lib.path or "src/lib.rs") ]
        ++ map (target: target.path) (it.bin or [ ] ++ it.test or [ ] ++ it.bench or [ ]);
      text = path: builtins.toFile "manifest" (builtins.readFile (root + "/${path}"));
    in
    ''
      cp ${text "Cargo.toml"} Cargo.toml
      cp ${text "Cargo.lock"} Cargo.lock
    ''
    + lib.concatMapStrings (member: ''
      mkdir -p ${member}
      cp ${text "${member}/Cargo.toml"} ${member}/Cargo.toml
      for target in ${lib.escapeShellArgs (targets member)}; do
        mkdir -p ${member}/$(dirname $target)
        echo 'fn main() {}' >${member}/$target
      done
    '') members;

  configure = ''
    ln -s "$cargoDeps" cargo-vendor-dir
    mkdir -p .cargo
    cat "$cargoDeps/.cargo/config.toml" >>.cargo/config.toml
    export CARGO_INCREMENTAL=0 CARGO_NET_OFFLINE=true
  '';
  cargo = verb: "cargo ${verb} --quiet --profile ${profile} --frozen -j \${NIX_BUILD_CORES:-1}";
in
{
  inherit importCargoLock;

  buildRustPackage =
    function:
    mkDerivation (
      final:
      let
        given = lib.toFunction function final;
        cargoDeps = given.cargoDeps or (importCargoLock given.cargoLock);
        doCheck = given.doCheck or true && profile == "release";
        dependencies = mkDerivation {
          pname = "${given.pname}-dependencies";
          inherit (given) version;
          inherit cargoDeps doCheck;
          cargoBuildFlags = given.cargoBuildFlags or [ ];
          cargoTestFlags = given.cargoTestFlags or [ ];
          buildCommand = ''
            mkdir source
            cd source
            ${skeleton (dirOf given.cargoLock.lockFile)}
            ${configure}
            ${cargo "build"} $cargoBuildFlags
            if [ -n "$doCheck" ]; then ${cargo "test --no-run"} $cargoTestFlags; fi
            mkdir $out
            cp -r target/${folder} $out/
          '';
        };
      in
      removeAttrs given [
        "cargoHash"
        "cargoLock"
      ]
      // {
        inherit cargoDeps dependencies doCheck;
        configurePhase = ''
          ${configure}
          mkdir target
          cp -a $dependencies/${folder} target/
          chmod -R u+w target
        '';
        buildPhase = "${cargo "build"} $cargoBuildFlags";
        checkPhase = "${cargo "test"} $cargoTestFlags";
        installPhase = ''
          runHook preInstall
          mkdir -p $out/bin
          find target/${folder} -maxdepth 1 -type f -executable ! -name '*.so' -exec install -m 755 -t $out/bin {} +
          runHook postInstall
        '';
      }
    );
}
