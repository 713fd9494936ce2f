"""Prints the ids of the engine programs that have a folder in their command line, and of all their descendants.

Only programs that engines start are taken as roots, so that a test or an editor that names the folder is left alone.
"""

import os
import sys

PROGRAMS = ("dockerd", "containerd", "podman", "conmon", "catatonit", "runc", "crun", "fuse-overlayfs", "exe")


def read(pid: str, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:  # it has ended, or is not ours to read
        return b""


def main() -> None:
    folder = sys.argv[1].encode()
    children: dict[str, list[str]] = {}
    roots: list[str] = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        stat = read(pid, "stat").rpartition(b") ")[2].split()
        if len(stat) < 2 or stat[0] == b"Z":
            continue
        children.setdefault(stat[1].decode(), []).append(pid)
        name = read(pid, "comm").decode(errors="replace").strip()
        named = folder + b"/" in read(pid, "cmdline") or folder + b"\0" in read(pid, "cmdline")
        # Podman's pause process has a bare command line; its environment has the folder.
        marked = name.startswith(("podman", "catatonit")) and b"=" + folder in read(pid, "environ")
        if name.startswith(PROGRAMS) and (named or marked):
            roots.append(pid)
    found: set[str] = set()
    while roots:
        pid = roots.pop()
        if pid not in found:
            found.add(pid)
            roots += children.get(pid, [])
    found -= {str(os.getpid()), str(os.getppid())}
    print(*sorted(found, key=int))


main()
