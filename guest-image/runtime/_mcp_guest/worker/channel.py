"""The worker's connection to the host: private descriptors, on which it sends whole frames (`inbox`
receives).

User code shares the process and may do anything to it. What counts is that it cannot speak the
protocol by accident, and that a worker which lost its channel ends instead of leaving the host to
wait.
"""

import _signal
import _thread
import posix

from _mcp_guest.frames import EXIT_LOST

__all__ = ["HANDLED_SIGNALS", "Channel", "SignalsBlocked", "close_all", "identity", "move_high"]

# All signals that user code may handle, except those that a fault of the process itself raises.
HANDLED_SIGNALS = frozenset((1, 2, 3, 10, 12, 13, 14, 15, 16, 17, 18, *range(20, 32), *range(34, 65)))
# Above what programs use and what careless `os.closerange` calls reach; lower where few files may
# be open.
HIGH_NUMBERS = (900, 200, 100)


class SignalsBlocked:
    """In the main thread, delays signal handlers, which may raise, until the end of the block."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = _signal.pthread_sigmask(_signal.SIG_BLOCK, ())
        try:
            # This runs handlers of pending signals: the old mask is read before it, and restored if
            # they raise.
            _signal.pthread_sigmask(_signal.SIG_BLOCK, HANDLED_SIGNALS)
        except BaseException:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, self.before)
            raise

    def __exit__(self, *error: object) -> None:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, self.before)


class Channel:
    """Frames to and from the host. Only the worker process may use it, not a fork of it."""

    def __init__(self, source: int, target: int, starts: int) -> None:
        self.source, self.target, self.starts = move_high(source), move_high(target), move_high(starts)
        self.process = posix.getpid()
        self.identities = self._identities()
        self.write_lock = _thread.allocate_lock()

    def send(self, lines: bytes) -> None:
        """Writes whole lines: frames, or commands for init. Blocks while the host does not read."""
        if posix.getpid() != self.process:
            return
        self.check()
        with self.write_lock:
            view = memoryview(lines)
            try:
                while view:
                    view = view[posix.write(self.target, view) :]
            except OSError:
                posix._exit(EXIT_LOST)

    def announce_run(self, output_bytes: int, cell: int) -> None:
        """Announces a run to init, which reads this when there is output or the run has ended:
        nothing wakes it."""
        try:
            posix.write(self.starts, b"%d %d\n" % (output_bytes, cell))
        except OSError:
            posix._exit(EXIT_LOST)

    def check(self) -> None:
        """Ends the worker if user code closed or replaced a descriptor: the host could not be
        reached any more."""
        try:
            identities = self._identities()
        except OSError:
            posix._exit(EXIT_LOST)
        if identities != self.identities:
            posix._exit(EXIT_LOST)

    def after_fork(self) -> None:
        """Closes all descriptors in a forked child."""
        close_all(self.source, self.target, self.starts)

    def _identities(self) -> list[tuple[int, int]]:
        return [identity(descriptor) for descriptor in (self.source, self.target, self.starts)]


def move_high(descriptor: int) -> int:
    """Moves a descriptor to a high number, close-on-exec."""
    for first in HIGH_NUMBERS:
        for number in range(first, first + 8):
            try:
                posix.fstat(number)
            except OSError:
                pass
            else:
                continue
            try:
                posix.dup2(descriptor, number, inheritable=False)
            except OSError:
                break
            posix.close(descriptor)
            return number
    return descriptor


def identity(descriptor: int) -> tuple[int, int]:
    """Tells open files apart: device and inode."""
    status = posix.fstat(descriptor)
    return status.st_dev, status.st_ino


def close_all(*descriptors: int) -> None:
    """Closes descriptors, also those that user code has closed before."""
    for descriptor in descriptors:
        try:
            posix.close(descriptor)
        except OSError:
            pass
