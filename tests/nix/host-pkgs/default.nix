# The packages and functions of nixpkgs that this project's Nix code uses, made of the programs of
# the machine that tests it. Same names, same arguments; the code is the project's own.
{
  system,
  profile ? "dev",
  overlays ? [ ],
}:
let
  lib = import ./lib;
  base =
    final:
    {
      inherit lib system;
      pkgs = final;
      callPackage = lib.callPackageWith final;
      stdenv = import ./stdenv.nix { inherit lib system; };
      stdenvNoCC = final.stdenv;
      rustPlatform = import ./rust.nix {
        inherit lib profile;
        inherit (final) fetchurl runCommand;
        inherit (final.stdenv) mkDerivation;
      };
      mkShell =
        args:
        final.stdenv.mkDerivation (
          {
            name = "nix-shell";
            buildCommand = "touch $out";
          }
          // removeAttrs args [
            "inputsFrom"
            "packages"
          ]
        );
      vmTools.debDistros.some.urlPrefix = "http://snapshot.invalid/archive/debian/20260101T000000Z";
    }
    // import ./builders.nix { inherit lib final; }
    // import ./fetchers.nix { inherit lib final; }
    // lib.mapAttrs (
      pname: path:
      final.runCommand pname {
        inherit pname;
        version = "host";
        meta = {
          mainProgram = baseNameOf path;
          description = "The machine's ${pname}";
        };
      } "mkdir -p $out/bin; ln -s ${path} $out/bin/"
    ) (import ./programs.nix)
    // {
      # Functions of the builder here, packages with setup hooks there.
      makeWrapper = final.hostOnly "make-wrapper";
      installShellFiles = final.hostOnly "install-shell-files";
      hostOnly = name: final.runCommand name { } "mkdir $out";
    };
in
lib.fix (lib.foldl' (f: overlay: lib.extends overlay f) base overlays)
// {
  extend =
    overlay:
    import ./. {
      inherit system profile;
      overlays = overlays ++ [ overlay ];
    };
}
