# The options that both modules have, and the package that follows from them.
{
  self,
  lib,
  pkgs,
}:

let
  inherit (lib) types;
  own = self.packages.${pkgs.stdenv.hostPlatform.system};
  settings = import ./settings.nix { inherit lib; };
  servers = import ./servers.nix { inherit lib; };
  # Settings that name an image. Variables of the wrapped bridge would win over them.
  ofImage = [
    "image"
    "image_archive"
    "image_lock"
  ];
in
{
  options = {
    enable = lib.mkEnableOption "mcp-code-bridge, Python in containers for MCP clients";

    package = lib.mkOption {
      type = types.package;
      inherit (own) default;
      defaultText = lib.literalExpression "mcp-code-bridge.packages.\${system}.default";
      description = "The bridge.";
    };

    guestImage = lib.mkOption {
      type = types.nullOr types.package;
      default = null;
      example = lib.literalExpression ''guest-image.override { extraInputs = [ … ]; expectedDigest = "sha256:…"; }'';
      description = "Another guest image, with its digests; null for the one that the bridge is locked to.";
    };

    settings = lib.mkOption {
      type = types.submodule { inherit (settings) options; };
      default = { };
      example = {
        memory = "1g";
        max_timeout = "5m";
      };
      description = "Settings of the bridge, as in bridge.yaml. Secrets do not belong here.";
    };

    servers = servers.options;
  };

  package =
    cfg:
    if lib.any (key: cfg.settings.${key} != null) ofImage then
      cfg.package.unwrapped or cfg.package
    else if cfg.guestImage != null then
      cfg.package.override { guest-image = cfg.guestImage; }
    else
      cfg.package;

  # bridge.yaml, judged at build time by the program that is going to read it.
  bridgeYaml =
    cfg:
    pkgs.runCommand "bridge.yaml"
      {
        text = settings.render cfg.settings;
        passAsFile = [ "text" ];
      }
      (
        ''cp "$textPath" "$out"''
        + lib.optionalString (pkgs.stdenv.buildPlatform.canExecute pkgs.stdenv.hostPlatform) ''

          ${lib.getExe (cfg.package.unwrapped or cfg.package)} config check "$out"
        ''
      );

  # What can be wrong wherever the bridge runs; `option` is what the module is called.
  assertions =
    option: cfg:
    let
      pinned = image: builtins.match "(.+@)?sha256:[0-9a-f]{64}" image != null;
      named = lib.filter (key: cfg.settings.${key} != null) ofImage;
    in
    [
      {
        assertion = cfg.guestImage == null || cfg.guestImage.digest or "" != "";
        message = "${option}.guestImage has no digest, so nothing could be verified: build it with expectedDigest.";
      }
      {
        assertion = cfg.guestImage == null || named == [ ];
        message = "${option}: an image is given twice, as guestImage and as ${toString named} in settings.";
      }
      {
        assertion =
          cfg.settings.image == null || cfg.settings.image_lock != null || pinned cfg.settings.image;
        message = "${option}.settings.image has no digest: name@sha256:<64 hex digits>, or give its lock in image_lock.";
      }
    ]
    ++ servers.assertions "${option}.servers" cfg.servers;
}
