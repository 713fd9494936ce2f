"""The start of the guest: makes the pipes, forks the worker that runs user code, and goes on as PID
1."""

import posix
import time

from _mcp_guest.init.cgroup import limit
from _mcp_guest.init.record import Record
from _mcp_guest.init.relay import Pipes, Relay

__all__ = ["main"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


# Docker and podman add these: they describe the engine, and a program may believe that there is a
# terminal.
ENGINE_VARIABLES = (b"HOSTNAME", b"TERM", b"container")
# Keeps matplotlib from looking for a screen.
OWN_VARIABLES = {b"MPLBACKEND": b"agg"}


def main() -> "NoReturn":
    """Ends the process with the worker's status, or at once when the host is gone."""
    began = time.monotonic()
    for name in ENGINE_VARIABLES:
        if posix.environ.pop(name, None) is not None:
            posix.unsetenv(name)
    for name, value in OWN_VARIABLES.items():
        posix.environ[name] = value
        posix.putenv(name, value)
    reading, writing = Pipes.make()
    record = _record()
    worker = posix.fork()
    if worker == 0:
        reading.close()
        from _mcp_guest.worker.start import start_worker

        start_worker(writing, record.descriptor if record else None, began)
    writing.close()
    try:
        posix.setpgid(worker, worker)
    except OSError:
        pass  # The worker does the same; it may be faster, or dead already.
    Relay(worker, reading, record).run()


def _record() -> Record | None:
    try:
        return Record(limit("memory.max", "memory/memory.limit_in_bytes"))
    except OSError:
        return None  # Memory files are not supported here: runs go on without `last_output`.
