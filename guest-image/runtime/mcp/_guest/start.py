"""The worker's first steps after the fork: its descriptors, then `ready`, and only then the rest of the runtime."""

import posix

from mcp._guest.channel import Channel
from mcp._guest.frames import encode
from mcp._guest.report import ready

__all__ = ["start_worker"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def start_worker(stdout: int, stderr: int, frames: int) -> "NoReturn":
    """Takes over the process; ends it with the host."""
    posix.setpgid(0, 0)
    channel = Channel(posix.dup(0), frames)
    null = posix.open("/dev/null", posix.O_RDONLY)
    for source, target in ((null, 0), (stdout, 1), (stderr, 2)):
        posix.dup2(source, target)
        posix.close(source)
    channel.send(encode(ready()))
    # While the host reads that, the rest is loaded; what the host sends meanwhile waits in the pipe.
    from mcp._guest.worker import Worker

    Worker(channel).run()
