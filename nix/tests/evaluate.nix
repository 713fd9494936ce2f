# For the tests: both modules evaluated beside options that only take in what the modules say to the
# rest of a system, and units as text.
{
  self,
  lib,
  pkgs,
}:

let
  inherit (lib) types;
  sink =
    type: default:
    lib.mkOption {
      inherit type default;
    };
  any = sink (types.attrsOf types.anything) { };
  list = sink (types.listOf types.anything) [ ];
  off = sink types.bool false;
  on = sink types.bool true;
  nothing = type: sink (types.nullOr type) null;
  # As nixpkgs: an option that was removed throws when it is read.
  removed =
    since:
    lib.mkOption {
      type = types.anything;
      default = throw "this option was removed from NixOS in ${since}";
    };
  # The defaults of NixOS for users, null where NixOS has null.
  userOf = types.submodule {
    options = {
      autoSubUidGidRange = off;
      createHome = off;
      description = sink types.str "";
      group = sink types.str "";
      home = sink types.str "/var/empty";
      isNormalUser = off;
      isSystemUser = off;
      linger = nothing types.bool;
      subGidRanges = list;
      subUidRanges = list;
      uid = nothing types.int;
    };
  };
  evaluate =
    options: modules:
    (lib.evalModules {
      specialArgs = { inherit pkgs; };
      modules = [ { inherit options; } ] ++ modules;
    }).config;
in
rec {
  # A machine: of a configuration with the module, or of one that imports it.
  nixos =
    config:
    machine [
      self.nixosModules.default
      { inherit config; }
    ];
  machine = evaluate {
    assertions = list;
    boot.kernel.sysctl = any;
    boot.kernelParams = list;
    environment.etc = any;
    environment.systemPackages = list;
    security.allowUserNamespaces = on;
    security.unprivilegedUsernsClone = off;
    systemd.enableUnifiedCgroupHierarchy = removed "24.11";
    systemd.services = any;
    systemd.sockets = any;
    users.groups = any;
    users.users = sink (types.attrsOf userOf) { };
    virtualisation.diskSize = sink types.int 1024;
    virtualisation.docker.enable = off;
    virtualisation.memorySize = sink types.int 1024;
    virtualisation.podman.enable = off;
  };

  home =
    config:
    evaluate
      {
        assertions = list;
        home.activation = any;
        home.homeDirectory = sink types.str "/home/ann";
        home.packages = list;
        services.podman.enable = off;
        systemd.user = any;
        xdg.configFile = any;
        xdg.configHome = sink types.str "/home/ann/.config";
      }
      [
        self.homeModules.default
        { inherit config; }
      ];

  # Messages of assertions that do not hold.
  complaints = system: map (one: one.message) (lib.filter (one: !one.assertion) system.assertions);

  # Whether all of `value` evaluates.
  evaluates = value: (builtins.tryEval (builtins.deepSeq value true)).success;

  # Sections of a unit as text: a list is one line for each, and says nothing where it is empty.
  unitText =
    sections:
    let
      text =
        value:
        if value == true then
          "yes"
        else if value == false then
          "no"
        else
          toString value;
      line =
        key: value:
        lib.concatMapStrings (one: "${key}=${text one}\n") (if lib.isList value then value else [ value ]);
      section = name: values: "[${name}]\n" + lib.concatStringsSep "" (lib.mapAttrsToList line values);
    in
    lib.concatStringsSep "\n" (lib.mapAttrsToList section sections);

  # A unit of NixOS's options, with the search path of an ordinary system behind that of the unit.
  systemUnit =
    unit:
    unitText {
      Unit = {
        Description = unit.description;
        Documentation = unit.documentation or [ ];
        After = unit.after or [ ];
        Requires = unit.requires or [ ];
      };
      Install.WantedBy = unit.wantedBy or [ ];
      ${if unit ? socketConfig then "Socket" else "Service"} =
        unit.socketConfig or (
          {
            Environment = "PATH=${lib.concatMapStrings (package: "${package}/bin:") unit.path}/usr/bin:/bin";
          }
          // unit.serviceConfig
        );
    };
}
