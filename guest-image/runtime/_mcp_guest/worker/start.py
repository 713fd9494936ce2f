"""The worker's first steps after the fork: its descriptors, then `ready`, and only then the rest of the runtime."""

import posix

from _mcp_guest.worker.channel import Channel
from _mcp_guest.frames import encode
from _mcp_guest.worker.report import ready

__all__ = ["start_worker"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def start_worker(
    streams: tuple[int, int], ways: tuple[int, int], record: int | None, began: float
) -> "NoReturn":
    """Takes over the process; ends it with the host. `ways` to init: for frames, and for starts of runs."""
    posix.setpgid(0, 0)
    stdout, stderr = streams
    channel = Channel(posix.dup(0), *ways)
    null = posix.open("/dev/null", posix.O_RDONLY)
    for source, target in ((null, 0), (stdout, 1), (stderr, 2)):
        posix.dup2(source, target)
        posix.close(source)
    _offer_to_the_oom_killer()
    channel.send(encode(ready(began)))
    # While the host reads that, the rest is loaded; what the host sends meanwhile waits in the pipe.
    from _mcp_guest.worker.worker import Worker

    Worker(channel, record).run()


def _offer_to_the_oom_killer() -> None:
    """User code goes first when memory is short; PID 1 then lives to tell."""
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
