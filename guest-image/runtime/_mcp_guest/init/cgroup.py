"""What the guest's control group says of it, in version 2 of cgroups and in version 1."""

import posix

__all__ = ["limit", "number", "oom_kills", "read"]

ROOT = "/sys/fs/cgroup"
# Version 1 says "unlimited" with a number near 2**63.
UNLIMITED = 1 << 60


def limit(*files: str) -> int | None:
    """The limit that the first readable file tells."""
    for file in files:
        found = number(read(f"{ROOT}/{file}"))
        if found is not None and found < UNLIMITED:
            return found
    return None


def oom_kills() -> int | None:
    """How many of its processes the kernel has killed for memory so far; none where it does not tell."""
    for file in ("memory.events", "memory/memory.oom_control"):
        for line in read(f"{ROOT}/{file}").splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return number(count)
    return None


def number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() else None


def read(path: str) -> str:
    """A small file of the kernel's; empty where it cannot be read."""
    try:
        descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return posix.read(descriptor, 1 << 16).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        posix.close(descriptor)
