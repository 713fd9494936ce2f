# Tests of what both modules configure: settings, servers and their secrets, images, clients.
# Evaluated by modules.nix.
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
  # Whether a text that speaks of packages holds this.
  says =
    part: text:
    lib.hasInfix (builtins.unsafeDiscardStringContext part) (builtins.unsafeDiscardStringContext text);
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
    expr = (user { settings = samples; }).xdg.configFile."mcp-code-bridge/bridge.yaml".source.text;
    expected = lib.concatMapStrings (
      key: "${key.name}: ${builtins.toJSON samples.${key.name}}\n"
    ) settings.keys;
  };
  testUnknownSetting = rejected { memroy = "1g"; };
  testUnknownOption = refuses (system { memory = "1g"; }).services.mcp-code-bridge;
  testFileIsCheckedByTheProgram = {
    expr =
      says "${lib.getExe own.bridge-unwrapped} config check"
        (user { }).xdg.configFile."mcp-code-bridge/bridge.yaml".source.buildCommand;
    expected = true;
  };
  testSizes = rejected { memory = "much"; };
  testMemoryTooSmall = rejected { memory = "31m"; };
  testMemoryTooSmallAsNumber = rejected { memory = 1024; };
  testSizeTooLarge = rejected { output_limit = "65m"; };
  testPartOfAByte = rejected { output_limit = "1.0000001k"; };
  testUnknownUnit = rejected { output_limit = "1ki"; };
  testTimes = rejected { timeout = "soon"; };
  testGraceTooLong = rejected { grace = "61s"; };
  testPartOfASecond = rejected { timeout = "1500ms"; };
  testNoTimeAtAll = rejected { max_timeout = 0; };
  testMoreThanADay = rejected { max_run = "25h"; };
  testNumbers = rejected { pids = 4; };
  testTooManyCpus = rejected { cpus = 1025; };
  testNoCpus = rejected { cpus = 0; };
  testPortOutOfRange = rejected { http = "127.0.0.1:70000"; };
  testOtherInterface = rejected { http = "0.0.0.0:8722"; };
  testNoAddress = rejected { http = "127.0.0.256:8722"; };
  testRelativeProject = rejected { project = "work"; };
  testRootInTheContainer = rejected { container_user = "0"; };
  testUserOutOfRange = rejected { container_user = "4294967295"; };
  testBoundsAreAccepted = accepts (system {
    settings = {
      container_user = "1000:4294967294";
      cpus = 0.5;
      grace = "60s";
      http_token_file = null;
      max_run = "24h";
      max_timeout = 86400;
      memory = "32MiB";
      output_limit = 65536;
      session_idle = 0;
      store_files = "1.5m";
    };
  });
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
  testSecretAfterAFlag = secretIn {
    args = [
      "--api-key"
      "x"
    ];
  };
  testSecretInAFlag = secretIn { args = [ "--api-key=x" ]; };
  testSecretAsDefault = secretIn { env.API_KEY = "\${API_KEY:-x}"; };
  testSecretInAQuery = complains (user {
    servers.one.url = "https://example.org/?api_key=x";
  }) "programs.mcp-code-bridge.servers: a secret stands there as plain text";
  testNoSecrets = accepts (system {
    servers.one = {
      command = "x";
      args = [
        "--token"
        "\${TOKEN}"
        "--verbose"
        "y"
      ];
      env = {
        COOKIE_POLICY = "strict";
        MAX_TOKENS = "8000";
        TOKENIZER = "bpe";
      };
    };
  });
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
  testClientsAreEnteredByTheProgram = {
    expr =
      let
        inherit
          ((user {
            clients = [
              "cursor"
              "zed"
            ];
          }).home.activation.mcpCodeBridgeClients
          )
          after
          data
          ;
      in
      {
        inherit after;
        runs = says "clients add --name code --command ${lib.getExe own.default} cursor zed" data;
        configHome = says "XDG_CONFIG_HOME=/home/ann/.config" data;
      };
    expected = {
      after = [ "linkGeneration" ];
      runs = true;
      configHome = true;
    };
  };
  testPolicyComesWithPodmansSocket = {
    expr =
      let
        policy = config: (user config).xdg.configFile ? "containers/policy.json";
      in
      {
        off = policy { };
        on = policy { podmanSocket.enable = true; };
        otherModule =
          (home {
            programs.mcp-code-bridge = {
              enable = true;
              podmanSocket.enable = true;
            };
            services.podman.enable = true;
          }).xdg.configFile
            ? "containers/policy.json";
      };
    expected = {
      off = false;
      on = true;
      otherModule = false;
    };
  };
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
