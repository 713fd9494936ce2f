# MCP servers that Python may use, as options; and their definitions as the bridge reads them.
# Secrets are named by file and never stand in the store: the definition holds a reference to the
# file, which the bridge resolves when it reads it.
{ lib }:

let
  inherit (lib) types;
  option =
    type: default: description:
    lib.mkOption { inherit type default description; };
  # A path literal would be copied to the store, for all to read: only text is taken.
  outside = types.strMatching "/.*";
  value = types.either types.str (
    types.submodule {
      options._secret = lib.mkOption {
        type = outside;
        description = "The file that holds the value, outside of the store.";
      };
    }
  );
  isSecret = value: lib.isAttrs value;

  server = types.submodule {
    options = {
      enable = option types.bool true "Whether the server can be used.";
      description =
        option (types.nullOr types.str) null
          "What it is for, in a sentence that the model reads.";
      command =
        option (types.nullOr types.str) null
          "The program of a server that is started on the host.";
      args = option (types.listOf types.str) [ ] "Its arguments.";
      env = option (types.attrsOf value) { } ''
        Its variables. A secret is `{ _secret = "/run/keys/token"; }`; `"''${NAME}"` is a variable of the bridge itself.
      '';
      envFile =
        option (types.nullOr outside) null
          "A file of `NAME=value` lines for it, outside of the store.";
      cwd = option (types.nullOr types.str) null "Its working directory.";
      url = option (types.nullOr types.str) null "The address of a server that is reached over HTTP.";
      headers = option (types.attrsOf value) { } "Headers for it; secrets as in `env`.";
      startTimeout = option (types.nullOr types.ints.positive) null "Seconds for its start.";
      callTimeout = option (types.nullOr types.ints.positive) null "Seconds for a call.";
      onlyTools = option (types.nullOr (
        types.listOf types.str
      )) null "Policy: only these of its tools can be called.";
      exceptTools = option (types.listOf types.str) [ ] "Policy: these of its tools cannot be called.";
    };
  };

  # Every secret of all servers: where it is used, the name it has as a credential, its file.
  secrets =
    servers:
    lib.concatLists (
      lib.mapAttrsToList (
        name: server:
        let
          of =
            what: values:
            lib.mapAttrsToList (key: value: {
              where = "${name}.${what}.${key}";
              file = value._secret;
            }) (lib.filterAttrs (_: isSecret) values);
        in
        of "env" server.env
        ++ of "headers" server.headers
        ++ lib.optional (server.envFile != null) {
          where = "${name}.envFile";
          file = server.envFile;
        }
      ) servers
    );

  # `at where file` is the path under which the bridge finds a secret; it may hold variables.
  definition =
    at: name: server:
    let
      values =
        what:
        lib.mapAttrs (
          key: value:
          if isSecret value then "\${file:${at "${name}.${what}.${key}" value._secret}}" else value
        );
    in
    lib.filterAttrs (_: value: value != null && value != [ ] && value != { }) {
      inherit (server)
        args
        command
        cwd
        description
        url
        ;
      disabled = if server.enable then null else true;
      env = values "env" server.env;
      envFile = if server.envFile == null then null else at "${name}.envFile" server.envFile;
      headers = values "headers" server.headers;
      startup_timeout_sec = server.startTimeout;
      tool_timeout_sec = server.callTimeout;
      enabled_tools = server.onlyTools;
      disabled_tools = server.exceptTools;
    };

  matches = pattern: text: builtins.match pattern text != null;
  # Names that say what they hold, unless they name a file; then tokens that say what they are.
  tellsName =
    name:
    let
      plain = lib.replaceStrings [ "-" ] [ "_" ] (lib.toUpper name);
    in
    (
      matches "(.*_)?(TOKEN|SECRET|PASSWO?R?D|PASSPHRASE|APIKEY|CREDENTIALS?|AUTHORIZATION|COOKIE|KEYS?)(_.*)?" plain
      || matches ".*(TOKEN|SECRET|PASSWO?R?D|PASSPHRASE|APIKEY)" plain
    )
    && !(matches ".*(PUBLIC_KEY|KEY_ID|_(FILE|PATH|DIR|POLICY|LIMIT|TTL|COUNT|LENGTH))" plain);
  tellsValue =
    text:
    matches ".*(gh[opsur]_[A-Za-z0-9]{20}|github_pat_|glpat-|xox[abeprs]-|sk-[A-Za-z0-9_-]{16}|AKIA[0-9A-Z]{16}|PRIVATE KEY-----|[Bb]earer [A-Za-z0-9._~+/-]{8}).*" text
    || matches ".*://[^/@ ]*:[^/@ $]+@.*" text
    || matches ".*[?&]([A-Za-z_-]*(token|secret|password|key))=[^&$]+.*" text;
  # `''${NAME}`, but not with a default that is written out.
  isReference =
    text: text == "" || (matches ".*[$][{].*" text && !(matches ".*[$][{][^}]*:-[^}]+}.*" text));
  # `--api-key value` and `--api-key=value`.
  tellsArgument =
    before: argument:
    let
      flag = text: builtins.match "--?([A-Za-z][A-Za-z0-9_-]*)" text;
      joined = builtins.match "--?([A-Za-z][A-Za-z0-9_-]*)=(.*)" argument;
      named = flag before;
    in
    (joined != null && tellsName (lib.head joined) && !(isReference (lib.elemAt joined 1)))
    || (
      named != null && tellsName (lib.head named) && flag argument == null && !(isReference argument)
    );

  plainSecrets =
    servers:
    lib.concatLists (
      lib.mapAttrsToList (
        name: server:
        let
          bad =
            key: value: !(isSecret value) && (tellsValue value || (tellsName key && !(isReference value)));
          of = what: values: map (key: "${name}.${what}.${key}") (lib.attrNames (lib.filterAttrs bad values));
          texts = [
            server.command
            server.url
          ]
          ++ server.args;
        in
        of "env" server.env
        ++ of "headers" server.headers
        ++ lib.optional (
          lib.any (text: text != null && tellsValue text) texts
          || lib.any (at: tellsArgument (lib.elemAt ([ "" ] ++ server.args) at) (lib.elemAt server.args at)) (
            lib.genList (at: at) (lib.length server.args)
          )
        ) "${name} (command, args or url)"
      ) servers
    );
in
{
  inherit secrets;

  options = lib.mkOption {
    type = types.attrsOf server;
    default = { };
    example = lib.literalExpression ''
      {
        github = {
          url = "https://mcp.example.org/";
          headers.Authorization._secret = "/run/keys/github-authorization";
        };
      }
    '';
    description = "MCP servers that Python may use, by name.";
  };

  # The file of definitions.
  render = at: servers: builtins.toJSON { mcpServers = lib.mapAttrs (definition at) servers; };

  assertions =
    option: servers:
    let
      plain = plainSecrets servers;
      stored = lib.filter (secret: lib.hasPrefix builtins.storeDir secret.file) (secrets servers);
      unclear = lib.attrNames (
        lib.filterAttrs (_: server: (server.command == null) == (server.url == null)) servers
      );
      unnamed = lib.filter (secret: !(matches "[A-Za-z0-9._-]+" secret.where)) (secrets servers);
    in
    [
      {
        assertion = plain == [ ];
        message = ''
          ${option}: a secret stands there as plain text, and would be readable to everybody in the Nix store: ${toString plain}.
          Put it into a file and name that: { _secret = "/run/keys/name"; }'';
      }
      {
        assertion = stored == [ ];
        message = "${option}: a secret's file is in the Nix store, which everybody can read: ${
          toString (map (secret: secret.where) stored)
        }";
      }
      {
        assertion = unclear == [ ];
        message = "${option}: needs a command or a url, and only one of them: ${toString unclear}";
      }
      {
        assertion = unnamed == [ ];
        message = "${option}: names of servers, variables and headers with secrets may have letters, digits, _ and - only: ${
          toString (map (secret: secret.where) unnamed)
        }";
      }
    ];
}
