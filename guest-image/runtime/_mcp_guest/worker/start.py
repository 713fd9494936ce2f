"""The worker's first steps after the fork: its descriptors, then `ready`, and only then the other
modules."""

import posix
import sys
import time

from _mcp_guest.frames import PROTOCOL, encode
from _mcp_guest.init.cgroup import limit, number, read
from _mcp_guest.worker.channel import Channel

__all__ = ["ready", "start_worker"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from _mcp_guest.init.relay import Pipes


def start_worker(pipes: "Pipes", record: int | None, began: float) -> "NoReturn":
    """Runs the worker in this process until the host is gone. `record` is the descriptor of earlier
    output."""
    posix.setpgid(0, 0)
    channel = Channel(posix.dup(0), pipes.frames, pipes.starts)
    null = posix.open("/dev/null", posix.O_RDONLY)
    for source, target in ((null, 0), (pipes.stdout, 1), (pipes.stderr, 2)):
        posix.dup2(source, target)
        posix.close(source)
    _prefer_for_oom_kill()
    channel.send(encode(ready(began)))
    # The rest is imported while the host reads `ready`; frames that come meanwhile wait in the
    # pipe.
    from _mcp_guest.worker.worker import Worker

    Worker(channel, record).run()


def _prefer_for_oom_kill() -> None:
    """Has the kernel kill user code first when memory is short, so that PID 1 can report it."""
    try:
        score = posix.open("/proc/self/oom_score_adj", posix.O_WRONLY | posix.O_CLOEXEC)
    except OSError:
        return
    try:
        posix.write(score, b"1000")
    except OSError:
        pass
    finally:
        posix.close(score)


def ready(began: float) -> dict[str, object]:
    """The `ready` frame. `began` is when the runtime's own code started, on the monotonic clock."""
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
            # Counted from the container runtime's fork, long before Python was executed.
            "start_ms": round(_age_ms(posix.getppid()), 1),
            "runtime_ms": round((time.monotonic() - began) * 1000, 1),
        },
    }


def _age_ms(pid: int) -> float:
    """The age of a process in milliseconds, in steps of 10; 0 where the kernel does not show it."""
    fields = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if len(fields) < 20:
        return 0.0
    started = int(fields[19]) / posix.sysconf("SC_CLK_TCK")
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started) * 1000
