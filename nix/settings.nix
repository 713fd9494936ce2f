# The settings of bridge.yaml as options. Which there are and what they mean is read from the bridge's own table (keys.json, which a test of the
# bridge keeps in step with it); here stand the types. A key without a type, or a type without its key, does not evaluate.
{ lib }:

let
  inherit (lib) types;
  keys = lib.importJSON ../bridge/settings/src/keys.json;

  matching = types.strMatching;
  time = types.either types.ints.unsigned (matching "[0-9]+ *(ms|s|m|h|d)?");
  size = types.either types.ints.unsigned (matching "[0-9]+([.][0-9]+)? *[kKmMgGtT]?(i?[bB])?");

  of = {
    runtime = types.enum [
      "auto"
      "docker"
      "podman"
    ];
    engine_host = matching "(unix|tcp|http|https|ssh)://.+";
    oci_runtime = matching "[A-Za-z0-9_./-]+";
    allow_unenforced = types.listOf (
      types.enum [
        "memory"
        "pids"
        "cpus"
      ]
    );
    runtime_idle_timeout = time;
    image = types.str;
    image_archive = types.path;
    image_lock = types.path;
    guest_image_inputs = types.path;
    memory = size;
    pids = types.ints.between 8 4194304;
    cpus = types.number;
    open_files = types.ints.between 64 1048576;
    container_user = matching "[1-9][0-9]*(:[1-9][0-9]*)?";
    output_limit = size;
    output_tokens = types.ints.between 100 20000000;
    timeout = time;
    max_timeout = time;
    max_run = time;
    grace = time;
    session_idle = time;
    max_sessions = types.ints.between 1 256;
    spare = types.bool;
    state_dir = types.path;
    project = types.either types.bool types.path;
    store_value = size;
    store_memory = size;
    store_memory_count = types.ints.between 1 100000;
    store_tools = types.ints.between 1 10000;
    store_files = size;
    store_file_count = types.ints.between 0 10000;
    output_mode = types.enum [
      "compact"
      "toon"
    ];
    log_level = types.enum [
      "error"
      "warn"
      "info"
      "debug"
      "trace"
      "off"
    ];
    http = matching "(127([.][0-9]+){3}|\\[::1])(:[0-9]+)|none";
    http_token_file = types.path;
    allow_self_server = types.bool;
    servers_config = types.path;
  };

  names = map (key: key.name) keys;
  unknown = lib.filter (name: !(lib.elem name names)) (lib.attrNames of);
in
{
  inherit keys;

  # One option a setting; null, the default, leaves it to the bridge.
  options =
    if unknown != [ ] then
      throw "nix/settings.nix has types for settings that the bridge does not have: ${toString unknown}"
    else
      lib.listToAttrs (
        map (
          key:
          lib.nameValuePair key.name (
            lib.mkOption {
              type = types.nullOr (
                of.${key.name} or (throw "nix/settings.nix has no type for the setting ${key.name}")
              );
              default = null;
              description = "${key.about}; ${key.accepts}. The bridge's default: ${key.default}.";
            }
          )
        ) keys
      );

  # bridge.yaml: a key a line, in the order of the documentation, so that messages about it name the line. JSON values are YAML.
  render =
    settings:
    lib.concatMapStrings (
      name: lib.optionalString (settings.${name} != null) "${name}: ${builtins.toJSON settings.${name}}\n"
    ) names;
}
