"""Frames from the host, read by whoever has time: the main thread between runs, the reader thread once a run lasts.

A thread that is woken for each frame costs as much as all else that a short run does. The two hand over by two flags
and no lock: each sets its own before it looks at the other's, and a signal that strikes in between leaves nothing held.
"""

import _signal
import _thread
import posix
import select
import time

from _mcp_guest.worker.channel import EXIT_LOST, HANDLED_SIGNALS, Channel, Undisturbed, aside, let_go
from _mcp_guest.frames import FrameError, decode
from _mcp_guest.init.relay import EXIT_PROTOCOL

__all__ = ["Inbox"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sized
    from typing import NoReturn

READ_BYTES = 65536
# What the host may send: results of servers are larger than what goes the other way.
FROM_HOST_LIMIT = (32 << 20) + (64 << 10)
# A run that lasts this long is listened beside of; what comes for it sooner, an interrupt say, waits so long.
LASTING_NANOSECONDS = 2_000_000


class Inbox:
    """Passes each frame to `receive`, in one thread at a time, and ends the worker with the host."""

    def __init__(
        self, channel: Channel, receive: "Callable[[dict[str, object]], None]", requests: "Sized"
    ) -> None:
        """`requests`: what `receive` has put aside for the main thread."""
        self.channel, self.receive, self.requests = channel, receive, requests
        self.partial = bytearray()
        self.source = select.poll()
        self.source.register(channel.source, select.POLLIN)
        self.timer = aside(posix.timerfd_create(time.CLOCK_MONOTONIC))
        # The main thread is busy with a run. The reader thread reads.
        self.busy = self.listening = False
        # Held, but when the reader thread has just stopped to read.
        self.returned = _thread.allocate_lock()
        self.returned.acquire()
        self.reader = _thread.start_new_thread(self._listen, ())

    def wait(self, seconds: float | None = None) -> bool:
        """In the main thread: takes what comes; false when nothing did in this time."""
        self.busy = False
        listening = self.listening
        if self.requests:
            return True
        if listening:
            return self.returned.acquire(timeout=-1 if seconds is None else seconds)
        if not self.source.poll(None if seconds is None else seconds * 1000):
            return False
        with Undisturbed():
            self._hear()
        return True

    def is_quiet(self) -> bool:
        """In the main thread, after `wait`: nothing has come meanwhile."""
        return not self.requests and (self.listening or not self.source.poll(0))

    def lend(self) -> None:
        """In the main thread: a run begins."""
        self.busy = True
        # Also while it listens: it may be about to stop.
        self._set_timer(LASTING_NANOSECONDS)

    def expect(self) -> None:
        """In any thread: what comes next is waited for."""
        if self.busy and not self.listening:
            self._set_timer(1)

    def is_reader(self) -> bool:
        """This is the reader thread."""
        return _thread.get_ident() == self.reader

    def forget(self) -> None:
        """In a forked child: lets go of the descriptor."""
        let_go(self.timer)

    def _set_timer(self, nanoseconds: int) -> None:
        try:
            posix.timerfd_settime_ns(self.timer, initial=nanoseconds)
        except OSError:
            posix._exit(EXIT_LOST)  # user code closed or replaced it

    def _listen(self) -> None:
        """The reader thread."""
        # Signals are the main thread's: only there do they end a wait.
        _signal.pthread_sigmask(_signal.SIG_BLOCK, HANDLED_SIGNALS)
        try:
            while True:
                posix.read(self.timer, 8)
                self.listening = True
                if self.busy:
                    self._hear()
                    while self.busy:
                        self._hear()
                self.listening = False
                if self.returned.locked():
                    self.returned.release()
        except BaseException:
            posix._exit(EXIT_LOST)

    def _hear(self) -> None:
        try:
            self._take(posix.read(self.channel.source, READ_BYTES))
        except FrameError as error:
            _die(f"malformed frame from the host: {error}")
        except BaseException:
            # Closed by user code, or no memory left; a deaf worker would leave the host waiting.
            posix._exit(EXIT_LOST)

    def _take(self, data: bytes) -> None:
        if not data:
            self.channel.check()
            posix._exit(0)
        self.partial += data
        if b"\n" in data:
            lines = self.partial.split(b"\n")
            self.partial = lines.pop()
            for line in lines:
                self.receive(decode(bytes(line)))
        if len(self.partial) > FROM_HOST_LIMIT:
            raise FrameError(f"longer than {FROM_HOST_LIMIT} bytes")


def _die(reason: str) -> "NoReturn":
    posix.write(2, f"mcp guest: {reason}\n".encode("utf-8", "backslashreplace"))
    posix._exit(EXIT_PROTOCOL)
