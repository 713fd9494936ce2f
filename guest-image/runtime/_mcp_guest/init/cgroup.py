"""Limits and counts of the guest's control group, for version 1 and version 2 of cgroups."""

import posix

__all__ = ["cpus", "limit", "number", "oom_kills", "read"]

ROOT = "/sys/fs/cgroup"
# Version 1 expresses "unlimited" as a number near 2**63.
UNLIMITED = 1 << 60


def limit(*files: str) -> int | None:
    """The limit in the first readable file; None where there is none."""
    for file in files:
        found = number(read(f"{ROOT}/{file}"))
        if found is not None and found < UNLIMITED:
            return found
    return None


def cpus() -> int | None:
    """The processors that may be used at once, rounded up; None without a limit."""
    quota, _, period = read(f"{ROOT}/cpu.max").strip().partition(" ")
    if not quota:
        quota, period = (read(f"{ROOT}/cpu/cpu.cfs_{name}_us") for name in ("quota", "period"))
    used, of = number(quota), number(period)
    return max(1, -(-used // of)) if used and of else None


def oom_kills() -> int | None:
    """Processes that the kernel has killed for memory so far; None where it does not count them."""
    for file in ("memory.events", "memory/memory.oom_control"):
        for line in read(f"{ROOT}/{file}").splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return number(count)
    return None


def number(text: str) -> int | None:
    """A decimal number; None for any other text."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() else None


def read(path: str) -> str:
    """A small kernel file; empty where it cannot be read."""
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
