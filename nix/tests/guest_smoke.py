"""Runs code in an unpacked guest image under bubblewrap: `guest_smoke.py ROOT CONFIG CODE OUTPUT`.

Starts the image's own entrypoint as process 1 of new namespaces, speaks the protocol with it, and fails unless the code
succeeds and prints that line.
"""

import json
import subprocess
import sys

root, config_file, code, output = sys.argv[1:]
with open(config_file) as file:
    config = json.load(file)
command = ["bwrap", "--unshare-all", "--as-pid-1", "--die-with-parent", "--uid", "65534", "--gid", "65534"]
command += ["--clearenv", "--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev"]
for folder in ("/tmp", "/workspace", "/projects"):
    command += ["--tmpfs", folder]
for variable in config["Env"]:
    command += ["--setenv", *variable.split("=", 1)]
command += ["--chdir", config["WorkingDir"], *config["Entrypoint"]]

execute = {"type": "execute", "id": 1, "cell": 1, "code": code, "limits": {"output_bytes": 1 << 20}}
printed = ""
with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as guest:
    assert guest.stdin and guest.stdout
    for line in guest.stdout:
        frame = json.loads(line)
        match frame["type"]:
            case "ready":
                print("ready:", frame["python"])
                print(json.dumps(execute), file=guest.stdin, flush=True)
            case "stdout" | "stderr":
                printed += frame["data"]
            case "execution_done":
                print("done:", frame["status"], frame.get("error") or "")
                guest.stdin.close()
print(f"printed: {printed!r}, exit status {guest.returncode}")
sys.exit(printed != output + "\n")
