# shellcheck shell=bash
# Runs in the virtual machine as root, in the folder with the files. What the modules ask of NixOS
# in options is first done by hand.
set -euo pipefail
passed=0
ok() { passed=$((passed + 1)); echo "vm: ok: $*"; }
failed() { echo "vm: failed: $*" >&2; journalctl --no-pager -n 40 -o cat -u 'mcp-code-bridge*' >&2; exit 1; }
is() { [ "$2" = "$3" ] || failed "$1: expected '$3', found '$2'"; ok "$1"; }

mkdir /nix
mv store /nix/store
chown -R root: /nix
install -m 644 client.py flip.py /usr/local/lib/
units=$(readlink units)
client() { python3 /usr/local/lib/client.py "$@"; }

# The options users.users and virtualisation.podman.
groupadd --system --gid 390 mcp-code-bridge
useradd --system --uid 390 --gid 390 --home-dir /var/lib/mcp-code-bridge --create-home mcp-code-bridge
usermod --add-subuids 500000-565535 --add-subgids 500000-565535 mcp-code-bridge
systemctl --global enable podman.socket 2>/dev/null
loginctl enable-linger mcp-code-bridge

echo "s3cret-of-the-vault" >/etc/vault.key
echo "t0ken-of-the-clients" >/etc/mcp-code-bridge.token
chmod 600 /etc/vault.key /etc/mcp-code-bridge.token
cp -L "$units"/servers/* /etc/systemd/system/
systemctl daemon-reload
systemctl start mcp-code-bridge.socket
bridge=$(sed -n 's/^ExecStart=\([^ ]*\) .*/\1/p' /etc/systemd/system/mcp-code-bridge-http.service)

# 1. The system service, with a bridge per connection: a verified image, podman of the service's own
# user, limits of cgroup v2.
is "a call over the socket" "$(client unix:/run/mcp-code-bridge.sock 'print(6 * 7)')" 42
is "a secret reaches its server as a credential" \
  "$(client unix:/run/mcp-code-bridge.sock 'print(await mcp_vault.digest())' vault)" "$(printf s3cret-of-the-vault | sha256sum | cut -d ' ' -f 1)"
is "the secret does not reach the guest" "$(client unix:/run/mcp-code-bridge.sock 'import os; print(any("s3cret" in value for value in os.environ.values()))')" False

# 2. The running service has the promised properties: seen on a new one, once those of the calls
# above have ended.
services() { systemctl list-units --plain --no-legend 'mcp-code-bridge@*.service' | cut -d ' ' -f 1; }
for _ in $(seq 600); do
  if [ -z "$(services)" ]; then break; fi
  read -rt 0.1 <> <(:) || :
done
is "services end with their connections" "$(services)" ""
python3 - <<'PYTHON' &
import socket, time
connection = socket.socket(socket.AF_UNIX)
connection.connect("/run/mcp-code-bridge.sock")
connection.recv(1)
PYTHON
holder=$!
for _ in $(seq 300); do
  unit=$(services)
  [ -z "$unit" ] || pid=$(systemctl show --value --property MainPID "$unit")
  # The program itself, no longer systemd before its exec.
  if [ "${pid:-0}" != 0 ] && grep -q '^NoNewPrivs:.1' "/proc/$pid/status" && [[ $(readlink "/proc/$pid/exe") == */mcp-code-bridge ]]; then break; fi
  read -rt 0.1 <> <(:) || :
done
is "it runs as its own user" "$(stat -c %U "/proc/$pid")" mcp-code-bridge
is "it has no capabilities" "$(sed -n 's/^Cap\(Eff\|Bnd\):\t//p' "/proc/$pid/status" | sort -u)" 0000000000000000
is "it gets no new privileges" "$(sed -n 's/^NoNewPrivs:\t//p' "/proc/$pid/status")" 1
is "it sees no other session" "$(ls "/proc/$pid/root/run/user")" 390
is "it cannot write the system" "$(nsenter --target "$pid" --mount sh -c 'touch /usr/x /etc/x' 2>&1 | grep -c 'Read-only file system')" 2
kill "$holder"

# 3. HTTP, with the token only.
if "$bridge" serve --help | grep -q -- --http; then
  systemctl start mcp-code-bridge-http.service
  address=http://127.0.0.1:8722/mcp
  for _ in $(seq 600); do
    if python3 -c 'import socket; socket.create_connection(("127.0.0.1", 8722), 1)' 2>/dev/null; then break; fi
    read -rt 0.1 <> <(:) || :
  done
  is "a call over HTTP" "$(MCP_TOKEN=t0ken-of-the-clients client $address 'print(6 * 7)')" 42
  if MCP_TOKEN=wrong client $address 'print(1)' >/dev/null 2>said; then failed "a wrong token was accepted"; fi
  is "a wrong token is refused" "$(grep -o 'HTTP Error 401' said)" "HTTP Error 401"
else
  echo "vm: SKIPPED: HTTP: this bridge does not support it"
fi

# 4. An ordinary user with the files of home-manager: podman's socket in the session, and a bridge
# that the client starts.
home=/home/user
install -d -o user -g user "$home"/.config{,/systemd,/systemd/user,/mcp-code-bridge}
cp -L "$units"/user/* "$home/.config/systemd/user/"
cp -L "$units/home/bridge.yaml" "$home/.config/mcp-code-bridge/"
sed 's|/home/ann|/home/user|g' "$units/home/activate.sh" >"$home/activate.sh"
cp /etc/vault.key "$home/vault.key"
chown -R user: "$home"
as_user() { runuser -l user -c "export XDG_RUNTIME_DIR=/run/user/1000 DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus; $1"; }
as_user 'systemctl --user stop podman.socket podman.service; systemctl --user daemon-reload; systemctl --user start podman.socket'
is "podman's socket is that of the module" "$(as_user 'systemctl --user show --value --property FragmentPath podman.socket')" "$home/.config/systemd/user/podman.socket"
archive=$(echo /nix/store/*-guest-image/guest.tar)
cp "$archive" "$home/tampered.tar"
python3 /usr/local/lib/flip.py "$home/tampered.tar"
chown user: "$home/tampered.tar"
status=0
as_user "$bridge run -c 'print(1)' --set image_archive=$home/tampered.tar" 2>said || status=$?
grep -q 'cannot load the guest image sha256:' said || { cat said >&2; failed "the refusal does not name the image"; }
is "an image that was tampered with is refused" "$status" 3
as_user 'run() { "$@"; }; . ./activate.sh'
command=$(python3 -c 'import json; print(json.load(open("/home/user/.cursor/mcp.json"))["mcpServers"]["code"]["command"])')
is "the command in the client's file, over stdio" "$(as_user "python3 /usr/local/lib/client.py $command 'print(6 * 7)'")" 42
is "podman ran by the socket's service" "$(as_user 'systemctl --user show --value --property FragmentPath podman.service')" "$home/.config/systemd/user/podman.service"
echo "vm: $passed passed, 0 failed"
