# stdenv.mkDerivation: the phases are in builder.sh, the tools in /usr and /rust.
{ lib, system }:
let
  platform = rec {
    inherit system;
    isLinux = lib.hasSuffix "-linux" system;
    isDarwin = lib.hasSuffix "-darwin" system;
    isx86_64 = lib.hasPrefix "x86_64-" system;
    isAarch64 = lib.hasPrefix "aarch64-" system;
    canExecute = other: other.system == system;
    go.GOARCH = if isAarch64 then "arm64" else "amd64";
  };
  mkDerivation =
    function:
    let
      given = lib.toFunction function (given // { finalPackage = package; });
      package =
        derivation (
          removeAttrs given [
            "env"
            "meta"
            "passthru"
          ]
          // given.env or { }
          // {
            name = given.name or "${given.pname}-${given.version}";
            inherit system;
            builder = "/bin/bash";
            args = [ ./builder.sh ];
          }
        )
        // given.passthru or { }
        // {
          meta = given.meta or { };
          passthru = given.passthru or { };
          overrideAttrs =
            change:
            mkDerivation (
              final:
              let
                previous = lib.toFunction function final;
              in
              previous // lib.toFunction change previous
            );
        }
        // lib.filterAttrs (name: _: name == "pname" || name == "version" || name == "src") given;
    in
    package;
in
{
  inherit mkDerivation;
  hostPlatform = platform;
  buildPlatform = platform;
}
