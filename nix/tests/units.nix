# The units as text, judged by systemd itself; the files that the modules write, read by the bridge
# itself. The units and files are the result, so that they can be started on a real machine
# (tests/nix/vm.sh).
{
  self,
  lib,
  pkgs,
  bubblewrap,
  jq,
  linkFarm,
  python3,
  runCommand,
  systemd,
  writeText,
}:

let
  inherit (import ./evaluate.nix { inherit self lib pkgs; })
    home
    nixos
    systemUnit
    unitText
    ;
  samples = import ./samples.nix;
  own = self.packages.${pkgs.stdenv.hostPlatform.system};
  clients = lib.importJSON ../../bridge/catalog/src/clients.json;

  http = {
    enable = true;
    tokenFile = "/etc/mcp-code-bridge.token";
  };
  # A server that knows a secret, as systemd hands it over.
  vault = {
    command = "/usr/bin/python3";
    args = [ "${./vault.py}" ];
    env.VAULT_KEY._secret = "/etc/vault.key";
    description = "Knows a secret.";
  };
  systemUnits =
    config:
    let
      inherit
        (nixos {
          services.mcp-code-bridge = {
            enable = true;
          }
          // config;
        })
        systemd
        ;
    in
    lib.mapAttrs' (name: unit: lib.nameValuePair "${name}.service" (systemUnit unit)) systemd.services
    // lib.mapAttrs' (name: unit: lib.nameValuePair "${name}.socket" (systemUnit unit)) systemd.sockets;
  ann = home {
    programs.mcp-code-bridge = {
      enable = true;
      clients = map (client: client.name) clients;
      podmanSocket.enable = true;
      servers.vault = vault;
    };
  };
  everything = home {
    programs.mcp-code-bridge = {
      enable = true;
      settings = samples;
    };
  };
  tree =
    folder: files:
    lib.mapAttrsToList (name: text: {
      name = "${folder}/${name}";
      path = writeText (lib.replaceStrings [ "@" ] [ "-" ] name) text;
    }) files;
  files = linkFarm "mcp-code-bridge-files" (
    tree "system" (systemUnits {
      inherit http;
    })
    ++ tree "servers" (systemUnits {
      inherit http;
      servers = { inherit vault; };
    })
    ++ tree "user" (
      lib.mapAttrs' (
        name: unit: lib.nameValuePair "${name}.socket" (unitText unit)
      ) ann.systemd.user.sockets
      // lib.mapAttrs' (
        name: unit: lib.nameValuePair "${name}.service" (unitText unit)
      ) ann.systemd.user.services
    )
    ++ tree "home" {
      "activate.sh" = ann.home.activation.mcpCodeBridgeClients.data;
      "clients.json" = builtins.toJSON clients;
    }
    ++ [
      {
        name = "home/bridge.yaml";
        path = ann.xdg.configFile."mcp-code-bridge/bridge.yaml".source;
      }
      {
        name = "home/everything.yaml";
        path = everything.xdg.configFile."mcp-code-bridge/bridge.yaml".source;
      }
    ]
  );
in
runCommand "mcp-code-bridge-units"
  {
    nativeBuildInputs = [
      bubblewrap
      jq
      own.default
      python3
      systemd
    ];
    inherit files;
    systemUnits = "${systemd}/example/systemd";
  }
  ''
    bash ${./units.sh}
    ln -s $files $out
  ''
