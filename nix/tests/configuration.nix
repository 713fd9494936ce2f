# Tests of what both modules configure: settings, servers and their secrets, images, clients. Evaluated by modules.nix.
{
  lib,
  accepts,
  complains,
  evaluates,
  github,
  home,
  instance,
  own,
  refuses,
  system,
  user,
  ...
}:

let
  samples = import ./samples.nix;
  settings = import ../settings.nix { inherit lib; };
  # The same of both modules' settings.
  setting = settings: [
    (system { inherit settings; }).services.mcp-code-bridge.settings
    (user { inherit settings; }).programs.mcp-code-bridge.settings
  ];
  rejected = settings: {
    expr = map evaluates (setting settings);
    expected = [
      false
      false
    ];
  };
  secretIn =
    server:
    complains (system {
      servers.one = {
        command = "x";
      }
      // server;
    }) "services.mcp-code-bridge.servers: a secret stands there as plain text";

in
{
  testHomeIsOffByDefault = {
    expr = (home { }).xdg.configFile;
    expected = { };
  };
  testHomeIsAccepted = accepts (user {
    clients = [ "cursor" ];
  });
  testEverySettingIsTried = {
    expr = lib.attrNames samples;
    expected = lib.sort builtins.lessThan (map (key: key.name) settings.keys);
  };
  testEverySettingReachesTheFile = {
    expr = (user { settings = samples; }).xdg.configFile."mcp-code-bridge/bridge.yaml".text;
    expected = lib.concatMapStrings (
      key: "${key.name}: ${builtins.toJSON samples.${key.name}}\n"
    ) settings.keys;
  };
  testUnknownSetting = rejected { memroy = "1g"; };
  testUnknownOption = refuses (system { memory = "1g"; }).services.mcp-code-bridge;
  testSizes = rejected { memory = "much"; };
  testTimes = rejected { timeout = "soon"; };
  testNumbers = rejected { pids = 4; };
  testRootInTheContainer = rejected { container_user = "0"; };
  testLimitsByName = rejected { allow_unenforced = [ "disk" ]; };

  testSecretsAreCredentials = {
    expr =
      (instance (system {
        servers = { inherit github; };
      })).LoadCredential;
    expected = [ "github.headers.Authorization:/run/keys/github" ];
  };
  testServersAreAccepted = accepts (system {
    servers = {
      inherit github;
      files = {
        command = "/bin/server";
        env.TOKEN_FILE = "/run/keys/x";
        env.API_KEY = "\${API_KEY}";
        envFile = "/run/keys/env";
      };
    };
  });
  testSecretInVariable = secretIn { env.GITHUB_TOKEN = "hunter2"; };
  testSecretByItsLook = secretIn { env.SETTINGS = "ghp_abcdefghijklmnopqrstuvwxyz0123"; };
  testSecretInHeader = complains (system {
    servers.one = github // {
      headers.Authorization = "Bearer 0123456789abcdef";
    };
  }) "services.mcp-code-bridge.servers: a secret stands there as plain text";
  testSecretInArguments = secretIn { args = [ "--key=sk-0123456789abcdefghij" ]; };
  testSecretInAddress = complains (user {
    servers.one.url = "https://ann:hunter2@example.org/";
  }) "programs.mcp-code-bridge.servers: a secret stands there as plain text";
  testSecretInTheStore = complains (system {
    servers.one = {
      command = "x";
      env.TOKEN._secret = "${builtins.storeDir}/token";
    };
  }) "services.mcp-code-bridge.servers: a secret's file is in the Nix store";
  testServerOfNothing = complains (system {
    servers.one = { };
  }) "services.mcp-code-bridge.servers: needs a command or a url";
  testServerOfBoth = complains (system {
    servers.one = github // {
      command = "x";
    };
  }) "services.mcp-code-bridge.servers: needs a command or a url";

  testImageWithoutDigest = complains (system {
    settings.image = "guest:latest";
  }) "services.mcp-code-bridge.settings.image has no digest";
  testOwnImageWithoutDigest = complains (user {
    guestImage = own.guest-image // {
      digest = "";
    };
  }) "programs.mcp-code-bridge.guestImage has no digest";
  testImageTwice = complains (system {
    guestImage = own.guest-image;
    settings.image_archive = "/x.tar";
  }) "services.mcp-code-bridge: an image is given twice";
  testGuestImageReachesTheBridge = {
    expr =
      lib.hasPrefix (lib.getExe own.default)
        (instance (system {
          guestImage = own.guest-image // {
            archive = "/x.tar";
          };
        })).ExecStart;
    expected = false;
  };
  testOwnArchiveIsNotTheWrappers = {
    expr =
      lib.hasPrefix (lib.getExe own.bridge-unwrapped)
        (instance (system {
          settings.image_archive = "/x.tar";
        })).ExecStart;
    expected = true;
  };

  testUnknownClient = refuses (user { clients = [ "emacs" ]; }).programs.mcp-code-bridge.clients;
  testClientsAreLeftAlone = {
    expr = (user { }).home.activation;
    expected = { };
  };
  testPodmansSocketOnRequest = {
    expr = {
      off = (user { }).systemd.user;
      on = (user { podmanSocket.enable = true; }).systemd.user.sockets.podman.Socket.ListenStream;
    };
    expected = {
      off = { };
      on = "%t/podman/podman.sock";
    };
  };
}
