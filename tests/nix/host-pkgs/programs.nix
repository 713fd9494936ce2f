# Where this machine has what nixpkgs packages; /tools and /rust are what with-nix.sh lets into the
# sandbox under these names.
{
  bash = "/usr/bin/bash";
  bubblewrap = "/usr/bin/bwrap";
  coreutils = "/usr/bin/env";
  jq = "/usr/bin/jq";
  podman = "/usr/bin/podman";
  python3 = "/usr/bin/python3";
  skopeo = "/usr/bin/skopeo";
  systemd = "/usr/bin/systemctl";
  cargo = "/rust/bin/cargo";
  cargo-nextest = "/rust/bin/cargo-nextest";
  clippy = "/rust/bin/cargo-clippy";
  rustc = "/rust/bin/rustc";
  rustfmt = "/rust/bin/rustfmt";
  deadnix = "/tools/bin/deadnix";
  nixfmt = "/tools/bin/nixfmt";
  nixfmt-tree = "/tools/bin/nixfmt";
}
