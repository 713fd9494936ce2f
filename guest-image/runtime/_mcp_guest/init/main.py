"""The start of the guest: makes the pipes, forks the worker that runs user code, and goes on as PID 1."""

import posix
import time

from _mcp_guest.init.cgroup import limit
from _mcp_guest.init.record import Record
from _mcp_guest.init.relay import Relay

__all__ = ["main"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


# Docker and podman add these on their own; they tell of the engine, and a program may believe there is a terminal.
FOREIGN_VARIABLES = (b"HOSTNAME", b"TERM", b"container")
# There is no display to look for.
OWN_VARIABLES = {b"MPLBACKEND": b"agg"}


def main() -> "NoReturn":
    """Never returns: the process ends with the worker's status, or at once when the host is gone."""
    began = time.monotonic()
    for name in FOREIGN_VARIABLES:
        if posix.environ.pop(name, None) is not None:
            posix.unsetenv(name)
    for name, value in OWN_VARIABLES.items():
        posix.environ[name] = value
        posix.putenv(name, value)
    stdout, worker_stdout = posix.pipe()
    stderr, worker_stderr = posix.pipe()
    frames, worker_frames = posix.pipe()
    starts, worker_starts = posix.pipe()
    record = _record()
    worker = posix.fork()
    if worker == 0:
        for descriptor in (stdout, stderr, frames, starts):
            posix.close(descriptor)
        from _mcp_guest.worker.start import start_worker

        streams, ways = (worker_stdout, worker_stderr), (worker_frames, worker_starts)
        start_worker(streams, ways, record.descriptor if record else None, began)
    for descriptor in (worker_stdout, worker_stderr, worker_frames, worker_starts):
        posix.close(descriptor)
    try:
        posix.setpgid(worker, worker)
    except OSError:
        pass  # dead already; the worker does the same itself, whoever comes first
    Relay(worker, (stdout, stderr), (frames, starts), record).run()


def _record() -> Record | None:
    try:
        return Record(limit("memory.max", "memory/memory.limit_in_bytes"))
    except OSError:
        return None  # no memory files here: runs go on without `last_output`
