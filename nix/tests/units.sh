# Run by units.nix: `files` is what the modules wrote. Ends at the first thing that is wrong.
set -euo pipefail
passed=0
ok() { passed=$((passed + 1)); }

# Systemd wants to make folders under /run, which a build has not.
private=()
for folder in /*; do
  case $folder in /run | /proc | /dev) ;; *) private+=(--bind "$folder" "$folder") ;; esac
done
analyze() { bwrap "${private[@]}" --tmpfs /run --proc /proc --dev /dev systemd-analyze --no-pager "$@"; }

# 1. Systemd reads every unit without a word, and finds the programs.
mkdir -p run
export HOME=$PWD XDG_RUNTIME_DIR=$PWD/run
for folder in system servers; do
  export SYSTEMD_UNIT_PATH=$files/$folder:$systemUnits/system:
  analyze verify --man=no mcp-code-bridge.socket mcp-code-bridge@1.service mcp-code-bridge-http.service 2>said || { cat said >&2; exit 1; }
  if grep mcp-code-bridge said >&2; then exit 1; fi
  ok
done
export SYSTEMD_UNIT_PATH=$files/user:$systemUnits/user:
analyze verify --man=no --user podman.socket podman.service
ok
unset SYSTEMD_UNIT_PATH

# 2. Hardened: systemd's own account of exposure, below 2.5 of 10.
for unit in "$files"/{system,servers}/*.service; do
  name=$(basename "$unit")
  # Judged under a name that does not belong to a template.
  cp --remove-destination "$unit" "${name/@./-connection.}"
  analyze security --offline=yes --threshold=25 "./${name/@./-connection.}" >judged || { cat judged >&2; exit 1; }
  tail -n 1 judged
  ok
done

# 3. The bridge takes every setting that the options can write, and says which file they came from.
outcome=$(mcp-code-bridge --config "$files/home/everything.yaml" doctor --json | jq -r '.checks[] | select(.code == "C0") | .outcome + " " + .found' || :)
[ "$outcome" = "ok $files/home/everything.yaml" ] || { echo "bridge.yaml: $outcome" >&2; exit 1; }
ok

# 4. Registration puts the entry where the bridge itself finds it for each client, twice without a
# change, and leaves the rest alone.
mkdir -p home/.config/zed home/.codex home/.cursor
printf '{\n  // mine\n  "theme": "dark",\n}\n' >home/.config/zed/settings.json
printf 'model = "x"\n' >home/.codex/config.toml
printf '{"mcpServers":{"code":{"command":"/old/mcp-code-bridge"},"other":{"command":"/bin/true"}}}' >home/.cursor/mcp.json
sed "s|/home/ann|$PWD/home|g" "$files/home/activate.sh" >activate.sh
run() { "$@"; }
for _ in first second; do
  # shellcheck source=/dev/null
  . ./activate.sh
  (cd home && find . -type f -exec sha256sum {} + | sort) >sums
  cmp -s sums sums.before 2>/dev/null || mv sums sums.before
done
[ ! -e sums ] || cmp sums sums.before
grep -q '// mine' home/.config/zed/settings.json
grep -q '"command": *"/old/mcp-code-bridge"' home/.cursor/mcp.json && exit 1
grep -q '"other":{"command":"/bin/true"}' home/.cursor/mcp.json
as_ann() { (cd home && HOME=$PWD MCP_BRIDGE_ALLOW_SELF_SERVER=on MCP_BRIDGE_CONFIG=$files/home/bridge.yaml mcp-code-bridge "$@"); }
as_ann servers list --json | jq -r '.servers[] | select(.name == "code") | (.source, .passedOver[]) | .file' | sort >seen
as_ann clients list --json | jq -r '.clients[] | select(.scope == "user" and .entries[0].name == "code") | .file' | sort >registered
[ "$(wc -l <registered)" = "$(jq length "$files/home/clients.json")" ]
diff registered seen >&2
ok
echo "units: $passed passed, 0 failed"
