# `programs.mcp-code-bridge`: the bridge for one user: its settings and servers, the podman socket
# of the user's session, and its registration in the configuration files of MCP clients, which stay
# the clients' own: the program puts one entry in and leaves the rest unchanged.
{ self }:
{
  config,
  lib,
  pkgs,
  ...
}:

let
  inherit (lib) types;
  cfg = config.programs.mcp-code-bridge;
  common = import ./options.nix { inherit self lib pkgs; };
  servers = import ./servers.nix { inherit lib; };
  # The clients that the program knows (`mcp-code-bridge clients list`).
  known = lib.importJSON ../bridge/catalog/src/clients.json;

  package = common.package cfg;
  command = lib.getExe package;

  definitions = pkgs.writeText "servers.json" (servers.render (_: file: file) cfg.servers);

  # Activation may run without the user's variables. The program names each file that it leaves
  # unchanged; that does not hold up the generation.
  register =
    "run env "
    + lib.escapeShellArgs (
      [
        "HOME=${config.home.homeDirectory}"
        "XDG_CONFIG_HOME=${config.xdg.configHome}"
        command
        "clients"
        "add"
        "--name"
        cfg.name
        "--command"
        command
      ]
      ++ cfg.clients
    )
    + " || true\n";
in
{
  options.programs.mcp-code-bridge = common.options // {
    clients = lib.mkOption {
      type = types.listOf (types.enum (map (client: client.name) known));
      default = [ ];
      example = [
        "claude-code"
        "cursor"
      ];
      description = "Clients in whose own configuration files the bridge is entered as a server: ${
        lib.concatMapStringsSep ", " (client: "`${client.name}` (${client.title})") known
      }.";
    };

    name = lib.mkOption {
      type = types.strMatching "[A-Za-z0-9_-]+";
      default = "code";
      description = "The name under which clients know it.";
    };

    podmanSocket = {
      enable = lib.mkEnableOption ''
        podman's socket in the user's session. The bridge starts podman itself where there is none; with the socket that is done once for
        all. NixOS has it already where virtualisation.podman is enabled'';
      package = lib.mkOption {
        type = types.package;
        default = pkgs.podman;
        defaultText = lib.literalExpression "pkgs.podman";
        description = "Podman.";
      };
    };
  };

  config = lib.mkIf cfg.enable {
    programs.mcp-code-bridge.settings.servers_config = lib.mkIf (cfg.servers != { }) (
      lib.mkDefault "${definitions}"
    );

    assertions = common.assertions "programs.mcp-code-bridge" cfg ++ [
      {
        assertion = cfg.podmanSocket.enable -> pkgs.stdenv.hostPlatform.isLinux;
        message = "programs.mcp-code-bridge.podmanSocket: a Mac has no systemd; use podman machine.";
      }
    ];

    home.packages = [ package ];
    xdg.configFile = {
      "mcp-code-bridge/bridge.yaml".source = common.bridgeYaml cfg;
    }
    # Without a policy podman loads no image. The module of home-manager for podman writes one
    # itself.
    // lib.optionalAttrs (cfg.podmanSocket.enable && !(config.services.podman.enable or false)) {
      "containers/policy.json".text = lib.mkDefault (
        builtins.toJSON { default = [ { type = "insecureAcceptAnything"; } ]; }
      );
    };

    # Plain data, so that no library of home-manager is needed. The links of this generation come
    # first: a file that is one of them is left unchanged.
    home.activation = lib.mkIf (cfg.clients != [ ]) {
      mcpCodeBridgeClients = {
        after = [ "linkGeneration" ];
        before = [ ];
        data = register;
      };
    };

    systemd.user = lib.mkIf cfg.podmanSocket.enable {
      sockets.podman = {
        Unit.Description = "Podman's API for this user";
        Socket = {
          ListenStream = "%t/podman/podman.sock";
          SocketMode = "0600";
        };
        Install.WantedBy = [ "sockets.target" ];
      };
      services.podman = {
        Unit = {
          Description = "Podman's API for this user";
          Requires = "podman.socket";
          After = "podman.socket";
        };
        Service = {
          Type = "exec";
          # Containers outlive the service, which ends when it is idle.
          KillMode = "process";
          Delegate = true;
          # The setuid newuidmap of NixOS, and of other systems.
          Environment = "PATH=/run/wrappers/bin:${
            lib.makeBinPath [ cfg.podmanSocket.package ]
          }:/usr/local/bin:/usr/bin:/bin";
          ExecStart = "${lib.getExe cfg.podmanSocket.package} system service";
        };
      };
    };
  };
}
