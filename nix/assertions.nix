# What `mcp-code-bridge doctor` would find on the finished machine, said before it is built. Each
# message names the option to change.
{ config, lib }:

let
  cfg = config.services.mcp-code-bridge;
  option = "services.mcp-code-bridge";
  podman = cfg.engine == "podman";
  user = config.users.users.${cfg.user} or { };
  ranges = user.subUidRanges or [ ] != [ ] && user.subGidRanges or [ ] != [ ];
  sysctl = config.boot.kernel.sysctl or { };

  # Limits that have to hold; each needs its controller, delegated to the user's session.
  required = lib.filter (limit: !(lib.elem limit allowed)) (
    [
      "memory"
      "pids"
    ]
    ++ lib.optional (cfg.settings.cpus != null) "cpus"
  );
  allowed = if cfg.settings.allow_unenforced == null then [ ] else cfg.settings.allow_unenforced;
  controllers = map (limit: if limit == "cpus" then "cpu" else limit) required;
  delegate = config.systemd.services."user@".serviceConfig.Delegate or true;
  delegated =
    controller:
    delegate == true
    || delegate == "yes"
    || (lib.isList delegate && lib.elem controller delegate)
    || (lib.isString delegate && lib.elem controller (lib.splitString " " delegate));
  missing = lib.filter (controller: !(delegated controller)) controllers;

  # Cgroup v1, by the kernel's command line: NixOS has no option for it since 24.11.
  v1 = lib.any (
    parameter:
    lib.elem parameter [
      "systemd.unified_cgroup_hierarchy=0"
      "systemd.unified_cgroup_hierarchy=no"
      "systemd.unified_cgroup_hierarchy=false"
    ]
  ) (config.boot.kernelParams or [ ]);

  check = assertion: message: { inherit assertion message; };
in
[
  (check (podman -> config.virtualisation.podman.enable or false)
    "${option} needs podman: set virtualisation.podman.enable = true, or ${option}.engine = \"docker\"."
  )
  (check (
    !podman -> config.virtualisation.docker.enable or false
  ) "${option}.engine is docker: set virtualisation.docker.enable = true.")
  (check (podman -> (user.autoSubUidGidRange or false) == true || ranges)
    "E2: podman without root needs subordinate ids: set users.users.${cfg.user}.autoSubUidGidRange = true."
  )
  # NixOS leaves it null by default.
  (check (podman -> (user.linger or null) == true)
    "E1: podman's socket is in the session of ${cfg.user}: set users.users.${cfg.user}.linger = true."
  )
  (check (
    podman -> user.uid or null == cfg.uid
  ) "E1: ${option}.uid is ${toString cfg.uid}, which users.users.${cfg.user}.uid is not.")
  (check (
    podman -> config.security.allowUserNamespaces or true && sysctl."user.max_user_namespaces" or 1 != 0
  ) "E4: podman without root needs user namespaces: set security.allowUserNamespaces = true.")
  (check
    (
      podman
      ->
        config.security.unprivilegedUsernsClone or true
        || sysctl."kernel.unprivileged_userns_clone" or 1 != 0
    )
    "E4: podman without root needs user namespaces for everyone: set security.unprivilegedUsernsClone = true."
  )
  (check (podman && required != [ ] -> !v1)
    "L0: on cgroup v1 podman without root enforces no limits (${toString required}): use cgroup v2, or allow it by name with ${option}.settings.allow_unenforced."
  )
  (check (podman -> missing == [ ])
    "L0: systemd.services.\"user@\".serviceConfig.Delegate leaves out ${toString missing}: podman could not enforce what ${option}.settings ask for."
  )
  (check (
    cfg.http.enable -> cfg.http.tokenFile != null
  ) "${option}.http.tokenFile is not set: every user of the machine could run code and call servers.")
  (check (
    cfg.http.tokenFile == null || !(lib.hasPrefix builtins.storeDir (toString cfg.http.tokenFile))
  ) "${option}.http.tokenFile is in the Nix store, which everybody can read.")
  (check (
    cfg.settings.http or null == null && cfg.settings.http_token_file or null == null
  ) "${option}.settings: HTTP is enabled with ${option}.http, with the token as a credential.")
]
