# Tests of `services.mcp-code-bridge`: the units, HTTP, and what has to be right on the machine.
# Evaluated by modules.nix.
{
  lib,
  accepts,
  complains,
  complaints,
  github,
  instance,
  machine,
  nixos,
  own,
  refuses,
  system,
  vm,
  ...
}:

let
  bridge = lib.getExe own.default;
  plain = system { };
  http = system {
    http = {
      enable = true;
      port = 9000;
      tokenFile = "/run/keys/token";
    };
  };
  httpUnit = http.systemd.services.mcp-code-bridge-http.serviceConfig;
in
{
  testOffByDefault = {
    expr = {
      inherit (nixos { }) assertions;
      inherit ((nixos { }).systemd) services sockets;
      inherit (nixos { }) users;

    };
    expected = {
      assertions = [ ];
      services = { };
      sockets = { };
      users = {
        groups = { };
        users = { };
      };

    };
  };
  testPlainIsAccepted = accepts plain;
  testPodmanIsEnabled = {
    expr = plain.virtualisation.podman.enable;
    expected = true;
  };
  testUserOfPodman = {
    expr = {
      inherit (plain.users.users.mcp-code-bridge)
        autoSubUidGidRange
        isSystemUser
        linger
        uid
        ;
    };
    expected = {
      autoSubUidGidRange = true;
      isSystemUser = true;
      linger = true;
      uid = 390;
    };
  };
  testExecStart = {
    expr =
      lib.hasPrefix "${bridge} --config ${builtins.storeDir}/" (instance plain).ExecStart
      && lib.hasSuffix "-bridge.yaml" (instance plain).ExecStart;
    expected = true;
  };
  # Spelt out once more, so that no line can go unnoticed.
  testHardening = {
    expr = removeAttrs (instance plain) [ "ExecStart" ];
    expected = {
      BindPaths = [ "/run/user/390/podman" ];
      BindReadOnlyPaths = [ ];
      CapabilityBoundingSet = "";
      Group = "mcp-code-bridge";
      IPAddressAllow = "localhost";
      IPAddressDeny = "any";
      KeyringMode = "private";
      LoadCredential = [ ];
      LockPersonality = true;
      MemoryDenyWriteExecute = true;
      NoNewPrivileges = true;
      PrivateDevices = true;
      PrivateTmp = true;
      PrivateUsers = true;
      ProtectClock = true;
      ProtectControlGroups = true;
      ProtectHome = "tmpfs";
      ProtectHostname = true;
      ProtectKernelLogs = true;
      ProtectKernelModules = true;
      ProtectKernelTunables = true;
      ProtectProc = "invisible";
      ProtectSystem = "strict";
      ReadWritePaths = [ ];
      RemoveIPC = true;
      RestrictAddressFamilies = [
        "AF_UNIX"
        "AF_INET"
        "AF_INET6"
      ];
      RestrictNamespaces = true;
      RestrictRealtime = true;
      RestrictSUIDSGID = true;
      StandardError = "journal";
      StandardInput = "socket";
      StandardOutput = "socket";
      StateDirectory = "mcp-code-bridge";
      StateDirectoryMode = "0700";
      SuccessExitStatus = 143;
      SupplementaryGroups = [ ];
      SystemCallArchitectures = "native";
      SystemCallErrorNumber = "EPERM";
      SystemCallFilter = [
        "@system-service"
        "~@privileged @resources"
      ];
      UMask = "0077";
      User = "mcp-code-bridge";
      WorkingDirectory = "/var/lib/mcp-code-bridge";
    };
  };
  testSwitchLeavesClientsTheirBridge = {
    expr = plain.systemd.services."mcp-code-bridge@".restartIfChanged;
    expected = false;
  };
  testHttpComesBackWithTheEngine = {
    expr = {
      inherit (http.systemd.services.mcp-code-bridge-http) bindsTo wantedBy;
    };
    expected = {
      bindsTo = [ "user@390.service" ];
      wantedBy = [
        "multi-user.target"
        "user@390.service"
      ];
    };
  };
  testGroupIsMadeForAnotherUser = {
    expr =
      let
        system = nixos {
          services.mcp-code-bridge = {
            enable = true;
            user = "ann";
            uid = 1000;
          };
          users.users.ann = {
            autoSubUidGidRange = true;
            linger = true;
            uid = 1000;
          };
        };
      in
      {
        complaints = complaints system;
        groups = lib.attrNames system.users.groups;
        users = lib.attrNames system.users.users;
      };
    expected = {
      complaints = [ ];
      groups = [ "mcp-code-bridge" ];
      users = [ "ann" ];
    };
  };
  testLingerIsOffByDefaultForAnotherUser = complains (nixos {
    services.mcp-code-bridge = {
      enable = true;
      user = "ann";
      uid = 1000;
    };
    users.users.ann = {
      autoSubUidGidRange = true;
      uid = 1000;
    };
  }) "E1";
  testStateElsewhereIsWritable = {
    expr =
      let
        paths = state_dir: {
          inherit
            (instance (system {
              settings = { inherit state_dir; };
            }))
            BindPaths
            ReadWritePaths
            ;
        };
      in
      [
        (paths "/srv/bridge")
        (paths "/home/ann/MCPs")
      ];
    expected = [
      {
        BindPaths = [ "/run/user/390/podman" ];
        ReadWritePaths = [ "/srv/bridge" ];
      }
      {
        BindPaths = [
          "/run/user/390/podman"
          "/home/ann/MCPs"
        ];
        ReadWritePaths = [ ];
      }
    ];
  };
  testArchiveAtHomeIsSeen = {
    expr =
      (instance (system {
        settings.image_archive = "/home/ann/guest.tar";
      })).BindReadOnlyPaths;
    expected = [ "/home/ann/guest.tar" ];
  };
  testRemoteEngineIsReached = {
    expr =
      (instance (system {
        settings.engine_host = "tcp://engine:2376";
      }))
        ? IPAddressDeny;
    expected = false;
  };
  testServersNeedTheNetworkAndJit = {
    expr =
      let
        unit = instance (system {
          servers = { inherit github; };
        });
      in
      [
        unit.MemoryDenyWriteExecute
        (unit ? IPAddressDeny)
      ];
    expected = [
      false
      false
    ];
  };
  testNeedsTheSessionOfItsUser = {
    expr = plain.systemd.services."mcp-code-bridge@".requires;
    expected = [ "user@390.service" ];
  };
  testDocker = {
    expr =
      let
        docker = nixos {
          services.mcp-code-bridge.enable = true;
          services.mcp-code-bridge.engine = "docker";
          virtualisation.docker.enable = true;
        };
      in
      {
        complaints = complaints docker;
        inherit (instance docker) BindPaths SupplementaryGroups;
        inherit (docker.services.mcp-code-bridge.settings) engine_host runtime;
        podman = docker.virtualisation.podman.enable;
      };
    expected = {
      complaints = [ ];
      BindPaths = [ ];
      SupplementaryGroups = [ "docker" ];
      engine_host = "unix:///run/docker.sock";
      runtime = "docker";
      podman = false;
    };
  };
  testSocketIsOfTheGroup = {
    expr = {
      inherit (plain.systemd.sockets.mcp-code-bridge.socketConfig) Accept SocketGroup SocketMode;
    };
    expected = {
      Accept = true;
      SocketGroup = "mcp-code-bridge";
      SocketMode = "0660";
    };
  };

  testHttpIsOffByDefault = {
    expr = plain.systemd.services ? mcp-code-bridge-http;
    expected = false;
  };
  testHttpIsAccepted = accepts http;
  testHttpListensOnLoopback = {
    expr = lib.hasInfix " serve --http 127.0.0.1:9000 --set http_token_file=%d/http-token" httpUnit.ExecStart;
    expected = true;
  };
  testTokenIsACredential = {
    expr = httpUnit.LoadCredential;
    expected = [ "http-token:/run/keys/token" ];
  };
  testHttpNeedsAToken = complains (system {
    http.enable = true;
  }) "services.mcp-code-bridge.http.tokenFile is not set";
  testTokenInTheStore = complains (system {
    http.enable = true;
    http.tokenFile = "${builtins.storeDir}/token";
  }) "services.mcp-code-bridge.http.tokenFile is in the Nix store";
  testTokenAsText = refuses (system { http.tokenFile = "hunter2"; }).services.mcp-code-bridge.http;
  testBadPort = refuses (system { http.port = 70000; }).services.mcp-code-bridge.http;
  testOtherAddress = refuses (system { http.address = "0.0.0.0"; }).services.mcp-code-bridge.http;

  testNoPodman = complains (nixos {
    services.mcp-code-bridge.enable = true;
    virtualisation.podman.enable = false;
  }) "services.mcp-code-bridge needs podman";
  testNoDocker = complains (system {
    engine = "docker";
  }) "services.mcp-code-bridge.engine is docker";
  testNoSubordinateIds = complains (nixos {
    services.mcp-code-bridge.enable = true;
    users.users.mcp-code-bridge.autoSubUidGidRange = false;
  }) "E2";
  testNoLingering = complains (nixos {
    services.mcp-code-bridge.enable = true;
    users.users.mcp-code-bridge.linger = false;
  }) "E1";
  testOtherUid = complains (nixos {
    services.mcp-code-bridge = {
      enable = true;
      user = "ann";
    };
    users.users.ann = {
      autoSubUidGidRange = true;
      linger = true;
      uid = 1000;
    };
  }) "E1: services.mcp-code-bridge.uid is 390";
  testNoUserNamespaces = complains (nixos {
    services.mcp-code-bridge.enable = true;
    security.allowUserNamespaces = false;
  }) "E4";
  testCgroupV1 = complains (nixos {
    services.mcp-code-bridge.enable = true;
    boot.kernelParams = [ "systemd.unified_cgroup_hierarchy=0" ];
  }) "L0: on cgroup v1";
  testCgroupV1ByName = accepts (nixos {
    services.mcp-code-bridge = {
      enable = true;
      settings.allow_unenforced = [
        "memory"
        "pids"
      ];
    };
    boot.kernelParams = [ "systemd.unified_cgroup_hierarchy=0" ];
  });
  testDelegation = complains (nixos {
    services.mcp-code-bridge.enable = true;
    services.mcp-code-bridge.settings.cpus = 1.5;
    systemd.services."user@".serviceConfig.Delegate = "memory pids";
  }) "L0: systemd.services.\"user@\".serviceConfig.Delegate leaves out cpu:";

  # The machine of vm.nix, which cannot be started everywhere, is a right one.
  testMachine = {
    expr =
      let
        inVm = machine [ vm.nodes.machine ];
      in
      {
        complaints = complaints inVm;
        inherit (inVm.services.mcp-code-bridge.settings) cpus memory;
      };
    expected = {
      complaints = [ ];
      cpus = 1;
      memory = "256m";
    };
  };
}
