"""The worker's way to the host: private descriptors, whole frames out, a reader thread for frames in.

User code shares the process and may do anything to it; what counts is that it cannot speak the protocol by accident,
and that a worker which lost its channel ends instead of leaving the host to wait.
"""

import _signal
import _thread
import posix

from mcp._guest.frames import FrameError, decode
from mcp._guest.relay import EXIT_PROTOCOL

__all__ = ["Channel", "Undisturbed", "aside", "identity"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

READ_BYTES = 65536
# What the host may send: results of servers are larger than what goes the other way.
FROM_HOST_LIMIT = (32 << 20) + (64 << 10)
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

    def __init__(self, source: int, target: int) -> None:
        self.source, self.target = aside(source), aside(target)
        self.process = posix.getpid()
        self.identities = (identity(self.source), identity(self.target))
        self.write_lock = _thread.allocate_lock()
        self.partial = bytearray()
        self.receive: Callable[[dict[str, object]], None] | None = None

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

    def check(self) -> None:
        """Ends the worker when user code closed or replaced one of the descriptors: nobody could hear it any more."""
        try:
            identities = (identity(self.source), identity(self.target))
        except OSError:
            posix._exit(EXIT_LOST)
        if identities != self.identities:
            posix._exit(EXIT_LOST)

    def listen(self, receive: "Callable[[dict[str, object]], None]") -> None:
        """Starts the reader thread, which calls `receive` for each frame and ends the worker with the host."""
        self.receive = receive
        _thread.start_new_thread(self._read, ())

    def forget(self) -> None:
        """In a forked child: lets go of all descriptors."""
        for descriptor in (self.source, self.target):
            try:
                posix.close(descriptor)
            except OSError:
                pass

    def _read(self) -> None:
        # Signals are the main thread's: only there do they end a wait.
        _signal.pthread_sigmask(_signal.SIG_BLOCK, HANDLED_SIGNALS)
        try:
            while True:
                self._take(posix.read(self.source, READ_BYTES))
        except FrameError as error:
            _die(f"malformed frame from the host: {error}")
        except BaseException:
            # Closed by user code, or no memory left; a deaf worker would leave the host waiting.
            posix._exit(EXIT_LOST)

    def _take(self, data: bytes) -> None:
        if not data:
            self.check()
            posix._exit(0)
        self.partial += data
        if b"\n" in data:
            lines = self.partial.split(b"\n")
            self.partial = lines.pop()
            for line in lines:
                if self.receive is not None:
                    self.receive(decode(bytes(line)))
        if len(self.partial) > FROM_HOST_LIMIT:
            raise FrameError(f"longer than {FROM_HOST_LIMIT} bytes")


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


def _die(reason: str) -> "NoReturn":
    posix.write(2, f"mcp guest: {reason}\n".encode("utf-8", "backslashreplace"))
    posix._exit(EXIT_PROTOCOL)
