# Run in the guest: everything it can read that may tell of the host.
import json
import os
import socket

texts = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline", "cgroup", "mountinfo", "mounts"):
        try:
            with open(f"/proc/{pid}/{name}", errors="replace") as file:
                texts.append(file.read())
        except OSError:
            pass
for folder, folders, files in os.walk("/"):
    if folder == "/":
        folders[:] = [name for name in folders if name in ("etc", "run", "home", "root", "mnt", "media", "srv", "var", "workspace", "projects", "tmp")]
    for name in files:
        try:
            with open(os.path.join(folder, name), errors="replace") as file:
                texts.append(file.read(100_000))
        except OSError:
            pass
print(json.dumps({
    "environment": dict(os.environ),
    "texts": texts,
    "host_name": socket.gethostname(),
    "devices": sorted(os.listdir("/dev")),
}))
