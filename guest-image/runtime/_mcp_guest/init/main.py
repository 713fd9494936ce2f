"""The start of the guest: makes the pipes, forks the worker that runs user code, and goes on as PID
1."""

import posix
import sys
import time

from _mcp_guest.init.cgroup import cpus, limit
from _mcp_guest.init.record import Record
from _mcp_guest.init.relay import Pipes, Relay

__all__ = ["main"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


# Docker and podman add these: they describe the engine, and a program may believe that there is a
# terminal.
ENGINE_VARIABLES = (b"HOSTNAME", b"TERM", b"container")
# Each library starts as many threads as the machine has processors, unless one of these says less.
THREAD_VARIABLES = (b"OMP_NUM_THREADS", b"OPENBLAS_NUM_THREADS", b"MKL_NUM_THREADS", b"NUMEXPR_NUM_THREADS")
# The threads of one library may be this part of all processes and threads.
PIDS_PART = 8


def main() -> "NoReturn":
    """Ends the process with the worker's status, or at once when the host is gone."""
    began = time.monotonic()
    for name in ENGINE_VARIABLES:
        if posix.environ.pop(name, None) is not None:
            posix.unsetenv(name)
    for name, value in _own_variables().items():
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


def _own_variables() -> "dict[bytes, bytes]":
    # The first keeps matplotlib from looking for a screen.
    variables = {b"MPLBACKEND": b"agg"}
    packages = sys.path[-1].encode()
    try:
        posix.stat(packages)
    except OSError:
        pass
    else:
        # For other interpreters that code starts.
        before = posix.environ.get(b"PYTHONPATH")
        variables[b"PYTHONPATH"] = before + b":" + packages if before else packages
    processors = len(posix.sched_getaffinity(0))
    pids = limit("pids.max", "pids/pids.max")
    threads = min(processors, cpus() or processors, max(1, pids // PIDS_PART) if pids else processors)
    if threads < processors:
        for name in THREAD_VARIABLES:
            variables.setdefault(name, b"%d" % threads)
    return variables


def _record() -> Record | None:
    try:
        return Record(limit("memory.max", "memory/memory.limit_in_bytes"))
    except OSError:
        return None  # Memory files are not supported here: runs go on without `last_output`.
