#!/usr/bin/env bash
# Does the gate notice mistakes? `with-nix.sh mutations.sh` puts one mistake after another into a
# copy of the tree, and the part of the gate that should find it has to fail, for the right reason.
# Before that, every part has to pass on the unchanged copy. Run the gate first: it fills the store.
set -euo pipefail
cd "$(dirname "$0")/../.."
system=$(uname -m)-linux
case $system in x86_64-linux) arch=amd64 ;; *) arch=arm64 ;; esac
work=$(mktemp -d "$TEST_NIX_DIR/mutations.XXXX")
trap 'rm -rf "$work"' EXIT
original=$PWD
lock=guest-image/lock/base.$arch
stand_in=(--override-input nixpkgs "$TEST_NIX_PKGS" --no-write-lock-file)

tracked() { git ls-files -z | tar -c --null -T - | tar -x -C "$1"; }
mkdir "$work/tree"
tracked "$work/tree"
git -C "$work/tree" init --quiet
git -C "$work/tree" add --all
tree() { git -C "$work/tree" -c user.name=t -c user.email=t@example.org "$@"; }
tree commit --quiet --message=unchanged

build() { nix build "path:$work/tree#$1" "${stand_in[@]}" --no-link --print-build-logs; }
# The parts of the gate.
part_lock() { (cd "$work/tree" && timeout 20 nix flake lock --no-update-lock-file "path:$work/tree"); }
part_modules() { build "checks.$system.modules"; }
part_units() { build "checks.$system.units"; }
part_inputs() { build guest-image.inputs; }
part_crates() { build bridge-unwrapped.cargoDeps; }
part_format() { (cd "$work/tree" && git ls-files '*.nix' | xargs nixfmt --check); }
part_dead() { (cd "$work/tree" && deadnix --fail .); }
# The digest is also built into the bridge. The unchanged tree's program is used: compiling another
# takes a minute.
image() { # ARGUMENTS of the image
  nix build --impure --no-link --print-build-logs --expr "
    let
      pkgs = import ${TEST_NIX_PKGS#path:} { system = \"$system\"; };
      packages = tree: import (/. + tree + \"/nix/packages.nix\") pkgs;
    in
    (packages \"$work/tree\").guest-image.override { inherit (packages \"$original\") bridge-unwrapped; $1 }"
}
part_image() { image ""; }
# A lock of the user's own, which has no digest beside it.
part_override() {
  if image "lockFile = builtins.toFile \"own.json\" (builtins.readFile $work/tree/$lock.json);" >"$work/refusal" 2>&1; then
    echo "an image without a digest was built"
    return 1
  fi
  grep "needs expectedDigest" "$work/refusal"
}

# mutate NAME PART FILE REASON SED-SCRIPT: the failure has to match REASON.
tried=0 caught=0
mutate() {
  local name=$1 part=$2 file=$3 reason=$4 script=$5
  tried=$((tried + 1))
  sed --in-place --regexp-extended "$script" "$work/tree/$file"
  if tree diff --quiet; then
    echo "NOTHING  $name: the mutation no longer changes $file" >&2
  elif "part_$part" >"$work/said" 2>&1; then
    echo "MISSED   $name: $part passes" >&2
  elif ! grep -Eq -- "$reason" "$work/said"; then
    echo "WRONG    $name: $part fails, but not for this" >&2
    tail -n 5 "$work/said" >&2
  else
    caught=$((caught + 1))
    echo "caught   $name ($part: $(grep -Eo -- "$reason" "$work/said" | head -n 1))"
  fi
  tree checkout --quiet -- .
}

for part in lock modules units inputs crates override image format dead; do
  "part_$part" >"$work/said" 2>&1 || { echo "mutations: $part fails on the unchanged tree: run \`make test-nix\` first" >&2; tail -n 20 "$work/said" >&2; exit 1; }
done

mutate "stale lock" lock flake.nix "requires lock file changes|updating the flake input" 's|nixos-unstable|nixos-26.05|'
mutate "input hash changed" inputs "$lock.json" "not in the store" '0,/"sha256": "[0-9a-f]/s/("sha256": ")[0-9a-f]{8}/\100000000/'
mutate "~ in a version" inputs "$lock.json" "not in the store" '0,/_[^_"]+_(amd64|arm64|all)\.deb/s/(_[^_"]+)(_(amd64|arm64|all)\.deb)/\1~1\2/'
mutate "crate's checksum changed" crates Cargo.lock "not in the store" '0,/^checksum = "[0-9a-f]/s/^(checksum = ")[0-9a-f]{8}/\100000000/'
mutate "digest file changed" image "$lock.digest.json" "expected sha256:0000" 's/("manifest": "sha256:)[0-9a-f]{8}/\100000000/'
mutate "override without a digest accepted" override nix/guest-image.nix "an image without a digest was built" 's/if \[ "\$found" != "\$expected" \]/if [ "$expected" ] \&\& [ "$found" != "$expected" ]/'
mutate "syntax error" modules nix/servers.nix "syntax error" '1s/^/}/'
mutate "not formatted" format nix/settings.nix "settings.nix" 's/^  inherit \(lib\) types;$/  inherit   (lib) types;/'
mutate "dead code" dead nix/settings.nix "Unused" 's/^  inherit \(lib\) types;$/  inherit (lib) types; unused = 1;/'

machine=nix/tests/vm.nix
mutate "unknown option" modules $machine "option .services.mcp-code-bridge.memroy. does not exist" 's/^( +)settings.memory = .*/\1memroy = "1g";/'
mutate "unknown setting" modules $machine "settings.memroy. does not exist" 's/settings.memory/settings.memroy/'
mutate "secret as plain text" modules $machine "secret stands there as plain text" 's/env.VAULT_KEY._secret = .*/env.VAULT_KEY = "hunter2";/'
mutate "no podman" modules $machine "needs podman" 's/^( +)virtualisation.memorySize = .*/\1virtualisation.podman.enable = false;/'
mutate "image without a digest" modules $machine "settings.image has no digest" 's/settings.memory = .*/settings.image = "guest:latest";/'
mutate "HTTP without a token" modules $machine "tokenFile is not set" '/tokenFile/d'

module=nix/nixos-module.nix
mutate "capabilities kept" modules $module "testHardening" '/CapabilityBoundingSet/d'
mutate "new privileges" modules $module "testHardening" '/NoNewPrivileges/d'
mutate "system writable" modules $module "testHardening" '/ProtectSystem/d'
mutate "homes seen" modules $module "testHardening" '/ProtectHome =/d'
mutate "all system calls" modules $module "testHardening" '/"~@privileged @resources"/d'
mutate "runs as root" modules $module "testHardening" '/^ +User = /d'
mutate "credentials dropped" modules $module "attribute .LoadCredential. missing|testSecretsAreCredentials" '/LoadCredential/d'
mutate "listens everywhere" modules $module "testOtherAddress" 's/^( +)"127.0.0.1"$/\1"127.0.0.1" "0.0.0.0"/'
mutate "no lingering" modules $module "testUserOfPodman" '/linger = /d'
mutate "no ids for podman" modules $module "testUserOfPodman" '/autoSubUidGidRange/d'
mutate "secrets not looked for" modules nix/servers.nix "testSecret" 's/^( +assertion = )plain == \[ \];/\1true;/'
mutate "a kind of setting that Nix does not know" modules bridge/settings/src/keys.json "does not know the type seize" 's/"type": "size"/"type": "seize"/'
mutate "bounds of sizes dropped" modules nix/settings.nix "testMemoryTooSmall" 's/value: within nix.from nix.to \(sizeOf value\)/value: sizeOf value != null/'
mutate "settings do not reach the file" modules nix/settings.nix "testEverySettingReachesTheFile" 's/lib.optionalString \(settings/lib.optionalString (name != "pids" \&\& settings/'
mutate "misspelt directive" units $module "Unknown key.*RestrictNamespace." 's/RestrictNamespaces/RestrictNamespace/'
mutate "program that is not there" units $module "not executable|No such file" 's|ExecStart = "\$\{lib.getExe package\}|ExecStart = "/nonexistent|'
mutate "clients are not entered" modules nix/home-module.nix "testClientsAreEnteredByTheProgram" 's/^( +)"add"$/\1"remove"/'
mutate "reads an option that was removed" modules nix/assertions.nix "was removed from NixOS in 24.11" 's/\(config.boot.kernelParams or \[ \]\);/(config.boot.kernelParams or [ ]) || !config.systemd.enableUnifiedCgroupHierarchy;/'
mutate "null taken for true" modules nix/assertions.nix "testLingerIsOffByDefaultForAnotherUser|expected a Boolean" 's/\(user.linger or null\) == true/user.linger/'
mutate "no group for another user" modules $module "testGroupIsMadeForAnotherUser" 's/groups = lib.mkIf \(cfg.group == name\)/groups = lib.mkIf (cfg.user == name)/'
mutate "stops count as failures" modules $module "testHardening" '/SuccessExitStatus/d'
mutate "switch cuts clients" modules $module "testSwitchLeavesClientsTheirBridge" 's/restartIfChanged = false/restartIfChanged = true/'
mutate "HTTP stays down" modules $module "testHttpComesBackWithTheEngine|attribute .bindsTo. missing" '/bindsTo = /d'
mutate "no policy for podman" modules nix/home-module.nix "testPolicyComesWithPodmansSocket" 's|containers/policy.json|containers/polity.json|'
mutate "setting that the bridge does not read" units nix/settings.nix "unknown setting .x[a-z_]+" 's/"\$\{name\}: /"x${name}: /'

echo "mutations: $tried tried, $caught caught"
[ "$caught" = "$tried" ]
