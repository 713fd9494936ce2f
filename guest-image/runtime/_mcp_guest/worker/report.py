"""What the guest says of itself in `ready`: its privileges and limits as the kernel shows them."""

import posix
import sys
import time

from _mcp_guest.init.cgroup import limit, number, read

__all__ = ["ready"]

PROTOCOL = 1


def ready(began: float) -> dict[str, object]:
    """The `ready` frame. `began` is when the runtime's own code began, on the monotonic clock."""
    status = dict(line.partition(":")[::2] for line in read("/proc/self/status").splitlines())
    return {
        "type": "ready",
        "protocol": PROTOCOL,
        "python": "{}.{}.{}".format(*sys.version_info[:3]),
        "pid": posix.getpid(),
        "report": {
            "cap_eff": status.get("CapEff", "").strip(),
            "cap_bnd": status.get("CapBnd", "").strip(),
            "no_new_privs": status.get("NoNewPrivs", "").strip() == "1",
            "seccomp": number(status.get("Seccomp", "")) or 0,
            "uid": posix.getuid(),
            "gid": posix.getgid(),
            "memory_max": limit("memory.max", "memory/memory.limit_in_bytes"),
            "pids_max": limit("pids.max", "pids/pids.max"),
        },
        "timings": {
            # The first counts from the fork by the container runtime, long before it executed Python.
            "start_ms": round(_age_ms(posix.getppid()), 1),
            "runtime_ms": round((time.monotonic() - began) * 1000, 1),
        },
    }


def _age_ms(pid: int) -> float:
    """Time since the kernel made the process, in ticks of 10 ms; 0 where it does not tell."""
    fields = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if len(fields) < 20:
        return 0.0
    started = int(fields[19]) / posix.sysconf("SC_CLK_TCK")
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started) * 1000
