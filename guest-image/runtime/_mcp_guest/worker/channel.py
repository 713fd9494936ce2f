"""The worker's way to the host: private descriptors, whole frames out. What comes in is `inbox`'s.

User code shares the process and may do anything to it; what counts is that it cannot speak the protocol by accident,
and that a worker which lost its channel ends instead of leaving the host to wait.
"""

import _signal
import _thread
import posix

__all__ = ["EXIT_LOST", "HANDLED_SIGNALS", "Channel", "Undisturbed", "aside", "identity", "let_go"]

EXIT_LOST = 71
# All that user code may handle, but for those that a fault of the process itself raises.
HANDLED_SIGNALS = frozenset((1, 2, 3, 10, 12, 13, 14, 15, 16, 17, 18, *range(20, 32), *range(34, 65)))
# Above what programs use and what careless `os.closerange` calls reach; lower where the limit of open files is low.
PLACES = (900, 200, 100)


class Undisturbed:
    """In the main thread: handlers of signals, which may raise, wait until the end of the block."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = _signal.pthread_sigmask(_signal.SIG_BLOCK, ())
        try:
            # Runs the handlers of signals that have come: the mask must be known before, and be restored if they raise.
            _signal.pthread_sigmask(_signal.SIG_BLOCK, HANDLED_SIGNALS)
        except BaseException:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, self.before)
            raise

    def __exit__(self, *error: object) -> None:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, self.before)


class Channel:
    """Frames to and from the host. Only the worker process itself may use it, not a fork of it."""

    def __init__(self, source: int, target: int, starts: int) -> None:
        self.source, self.target, self.starts = aside(source), aside(target), aside(starts)
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

    def begin(self, output_bytes: int, cell: int) -> None:
        """Announces a run to init, which looks when something was printed or a run has ended: nothing wakes it."""
        try:
            posix.write(self.starts, b"%d %d\n" % (output_bytes, cell))
        except OSError:
            posix._exit(EXIT_LOST)

    def check(self) -> None:
        """Ends the worker when user code closed or replaced one of the descriptors: nobody could hear it any more."""
        try:
            identities = self._identities()
        except OSError:
            posix._exit(EXIT_LOST)
        if identities != self.identities:
            posix._exit(EXIT_LOST)

    def forget(self) -> None:
        """In a forked child: lets go of all descriptors."""
        let_go(self.source, self.target, self.starts)

    def _identities(self) -> list[tuple[int, int]]:
        return [identity(descriptor) for descriptor in (self.source, self.target, self.starts)]


def aside(descriptor: int) -> int:
    """Moves a descriptor out of the way, close-on-exec."""
    for place in PLACES:
        for number in range(place, place + 8):
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
    """Which open file that is."""
    status = posix.fstat(descriptor)
    return status.st_dev, status.st_ino


def let_go(*descriptors: int) -> None:
    """Closes what user code may have closed before."""
    for descriptor in descriptors:
        try:
            posix.close(descriptor)
        except OSError:
            pass
