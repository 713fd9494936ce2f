# `services.mcp-code-bridge`: the bridge for a whole machine. The bridge runs in a hardened unit,
# without capabilities, new privileges or namespaces; containers are made by the engine outside of
# it: podman in the lingering session of the service's own user, or docker. Clients come over a unix
# socket (a bridge for each connection), and over HTTP on the loopback interface where that is
# enabled.
{ self }:
{
  config,
  lib,
  pkgs,
  ...
}:

let
  inherit (lib) types;
  cfg = config.services.mcp-code-bridge;
  common = import ./options.nix { inherit self lib pkgs; };
  servers = import ./servers.nix { inherit lib; };
  name = "mcp-code-bridge";
  home = "/var/lib/${name}";
  podman = cfg.engine == "podman";
  sessionUnit = "user@${toString cfg.uid}.service";
  engineUnit = if podman then sessionUnit else "docker.service";

  package = common.package cfg;

  bridgeYaml = common.bridgeYaml cfg;
  definitions = pkgs.writeText "servers.json" (
    servers.render (where: _: "\${CREDENTIALS_DIRECTORY}/${where}") cfg.servers
  );
  credentials = map (secret: "${secret.where}:${secret.file}") (servers.secrets cfg.servers);

  # What the hardened unit would not see, or not be allowed to write.
  below = folder: path: path == folder || lib.hasPrefix "${folder}/" path;
  isHidden =
    path:
    lib.any (folder: below folder path) [
      "/home"
      "/root"
      "/run/user"
    ];
  state = toString cfg.settings.state_dir;
  readHidden = lib.filter isHidden (
    map toString (
      lib.filter (path: path != null) [
        cfg.settings.image_archive
        cfg.settings.image_lock
        cfg.settings.guest_image_inputs
        cfg.settings.servers_config
      ]
    )
  );
  remoteEngine =
    cfg.settings.engine_host != null && !(lib.hasPrefix "unix://" cfg.settings.engine_host);

  service = arguments: credentials: extra: {
    description = "Python for MCP clients, in containers";
    documentation = [ "man:mcp-code-bridge(1)" ];
    after = [ engineUnit ];
    requires = [ engineUnit ];
    path = cfg.extraPackages;
    serviceConfig = {
      ExecStart = "${lib.getExe package} --config ${bridgeYaml}${arguments}";
      # It ends in order after SIGTERM, and says so with 128 + 15.
      SuccessExitStatus = 143;
      User = cfg.user;
      Group = cfg.group;
      SupplementaryGroups = lib.optional (!podman) "docker";
      StateDirectory = name;
      StateDirectoryMode = "0700";
      WorkingDirectory = home;
      LoadCredential = credentials;
      UMask = "0077";

      CapabilityBoundingSet = "";
      NoNewPrivileges = true;
      PrivateDevices = true;
      PrivateTmp = true;
      PrivateUsers = true;
      ProtectClock = true;
      ProtectControlGroups = true;
      # Of the homes and sessions of users only the folder of the engine's socket is seen.
      ProtectHome = "tmpfs";
      BindPaths =
        lib.optional podman "/run/user/${toString cfg.uid}/podman" ++ lib.optional (isHidden state) state;
      BindReadOnlyPaths = readHidden;
      ReadWritePaths = lib.optional (!(below home state || isHidden state)) state;
      ProtectHostname = true;
      ProtectKernelLogs = true;
      ProtectKernelModules = true;
      ProtectKernelTunables = true;
      ProtectProc = "invisible";
      ProtectSystem = "strict";
      RemoveIPC = true;
      KeyringMode = "private";
      LockPersonality = true;
      RestrictAddressFamilies = [
        "AF_UNIX"
        "AF_INET"
        "AF_INET6"
      ];
      RestrictNamespaces = true;
      RestrictRealtime = true;
      RestrictSUIDSGID = true;
      SystemCallArchitectures = "native";
      SystemCallErrorNumber = "EPERM";
      SystemCallFilter = [
        "@system-service"
        "~@privileged @resources"
      ];
      # Servers are started by the bridge and live here too: those of Node.js need memory that is
      # written and executed, and the network.
      MemoryDenyWriteExecute = cfg.servers == { };
    }
    // lib.optionalAttrs (cfg.servers == { } && !remoteEngine) {
      IPAddressDeny = "any";
      IPAddressAllow = "localhost";
    }
    // extra;
  };
in
{
  options.services.mcp-code-bridge = common.options // {
    engine = lib.mkOption {
      type = types.enum [
        "podman"
        "docker"
      ];
      default = "podman";
      description = ''
        What makes the containers: podman without root, in the session of the service's own user, or docker, which gives the service
        root's rights over the machine.
      '';
    };

    user = lib.mkOption {
      type = types.str;
      default = name;
      description = "The user that the bridge and its podman run as; made unless it is another than the default.";
    };

    group = lib.mkOption {
      type = types.str;
      default = name;
      description = "The group of that user. Its members may connect to the socket.";
    };

    uid = lib.mkOption {
      type = types.ints.between 1 65533;
      default = 390;
      description = "The user's number: podman's socket lies in a folder with this name.";
    };

    extraPackages = lib.mkOption {
      type = types.listOf types.package;
      default = [ ];
      example = lib.literalExpression "[ pkgs.nodejs pkgs.uv ]";
      description = "Programs that servers find on their search path.";
    };

    http = {
      enable = lib.mkEnableOption "MCP over HTTP, on the loopback interface";
      address = lib.mkOption {
        type = types.enum [
          "127.0.0.1"
          "::1"
        ];
        default = "127.0.0.1";
        description = "The address to listen on. There is no TLS: for other machines put a proxy in front.";
      };
      port = lib.mkOption {
        type = types.port;
        default = 8722;
        description = "The port to listen on.";
      };
      tokenFile = lib.mkOption {
        type = types.nullOr (types.strMatching "/.*");
        default = null;
        example = "/run/keys/mcp-code-bridge";
        description = "The file with the token that clients must send, outside of the store. Every user of the machine reaches the port.";
      };
    };
  };

  config = lib.mkIf cfg.enable {
    services.mcp-code-bridge.settings = {
      runtime = lib.mkDefault cfg.engine;
      engine_host = lib.mkDefault (
        if podman then
          "unix:///run/user/${toString cfg.uid}/podman/podman.sock"
        else
          "unix:///run/docker.sock"
      );
      state_dir = lib.mkDefault "${home}/state";
      servers_config = lib.mkIf (cfg.servers != { }) (lib.mkDefault "${definitions}");
    };

    assertions =
      common.assertions "services.${name}" cfg ++ import ./assertions.nix { inherit config lib; };

    environment.systemPackages = [ package ];
    virtualisation.podman.enable = lib.mkIf podman (lib.mkDefault true);

    users = {
      users.${name} = lib.mkIf (cfg.user == name) {
        inherit (cfg) group uid;
        inherit home;
        isSystemUser = true;
        createHome = true;
        description = "Runs Python for MCP clients";
        # Podman without root needs more ids than one, and a session that lasts.
        autoSubUidGidRange = lib.mkDefault podman;
        linger = lib.mkDefault podman;
      };
      groups = lib.mkIf (cfg.group == name) { ${name} = { }; };
    };

    systemd.sockets.${name} = {
      description = "Python for MCP clients: socket for MCP over a stream";
      wantedBy = [ "sockets.target" ];
      socketConfig = {
        ListenStream = "/run/${name}.sock";
        SocketMode = "0660";
        SocketGroup = cfg.group;
        Accept = true;
        MaxConnections = 32;
        RemoveOnStop = true;
      };
    };

    # A switch to another generation leaves connected clients their bridge.
    systemd.services."${name}@" =
      service "" credentials {
        StandardInput = "socket";
        StandardOutput = "socket";
        StandardError = "journal";
      }
      // {
        restartIfChanged = false;
      };

    systemd.services."${name}-http" = lib.mkIf cfg.http.enable (
      service
        " serve --http ${
           if cfg.http.address == "::1" then "[::1]" else cfg.http.address
         }:${toString cfg.http.port} --set http_token_file=%d/http-token"
        (credentials ++ [ "http-token:${toString cfg.http.tokenFile}" ])
        { Restart = "on-failure"; }
      // {
        # Lives and dies with the engine, and comes back with it.
        bindsTo = [ engineUnit ];
        wantedBy = [
          "multi-user.target"
          engineUnit
        ];
      }
    );
  };
}
