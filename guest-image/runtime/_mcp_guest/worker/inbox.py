"""Frames from the host. The main thread reads them between runs, the reader thread once a run takes
longer.

Waking a thread for each frame would cost as much as everything else that a short run does. The two
threads hand over by two flags and without a lock: each sets its own flag before it looks at the
other's, and a signal handler that raises in between leaves nothing locked.
"""

import _signal
import _thread
import posix
import select
import time

from _mcp_guest.frames import EXIT_LOST, EXIT_PROTOCOL, FROM_HOST_LIMIT, FrameError, decode
from _mcp_guest.worker.channel import HANDLED_SIGNALS, Channel, SignalsBlocked, close_all, move_high

__all__ = ["Inbox"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sized
    from typing import NoReturn

READ_BYTES = 65536
# The reader thread takes over from a run that lasts this long; an interrupt that comes sooner waits
# until then.
READER_DELAY_NANOSECONDS = 2_000_000


class Inbox:
    """Passes each frame to `receive`, in one thread at a time, and ends the worker when the host is
    gone."""

    def __init__(
        self, channel: Channel, receive: "Callable[[dict[str, object]], None]", requests: "Sized"
    ) -> None:
        """`requests` is what `receive` has queued for the main thread."""
        self.channel, self.receive, self.requests = channel, receive, requests
        self.partial = bytearray()
        self.source = select.poll()
        self.source.register(channel.source, select.POLLIN)
        self.timer = move_high(posix.timerfd_create(time.CLOCK_MONOTONIC))
        # Whether the main thread is busy with a run, and whether the reader thread reads.
        self.busy = self.listening = False
        # Locked, except when the reader thread has just stopped reading.
        self.returned = _thread.allocate_lock()
        self.returned.acquire()
        self.reader = _thread.start_new_thread(self._read_in_background, ())

    def wait(self, seconds: float | None = None) -> bool:
        """Receives frames in the main thread; false when none came within this time."""
        self.busy = False
        listening = self.listening
        if self.requests:
            return True
        if listening:
            return self.returned.acquire(timeout=-1 if seconds is None else seconds)
        if not self.source.poll(None if seconds is None else seconds * 1000):
            return False
        with SignalsBlocked():
            self._read()
        return True

    def is_quiet(self) -> bool:
        """Whether nothing has come since `wait`; for the main thread."""
        return not self.requests and (self.listening or not self.source.poll(0))

    def begin_run(self) -> None:
        """The main thread begins a run: the reader thread takes over if it lasts."""
        self.busy = True
        # Also while the reader thread reads: it may be about to stop.
        self._set_timer(READER_DELAY_NANOSECONDS)

    def expect_frame(self) -> None:
        """Some thread waits for the next frame: the reader thread takes over at once."""
        if self.busy and not self.listening:
            self._set_timer(1)

    def is_reader(self) -> bool:
        """Whether this is the reader thread."""
        return _thread.get_ident() == self.reader

    def after_fork(self) -> None:
        """Closes the timer in a forked child."""
        close_all(self.timer)

    def _set_timer(self, nanoseconds: int) -> None:
        try:
            posix.timerfd_settime_ns(self.timer, initial=nanoseconds)
        except OSError:
            posix._exit(EXIT_LOST)  # User code closed or replaced it.

    def _read_in_background(self) -> None:
        # Signals belong to the main thread: only there do they end a wait.
        _signal.pthread_sigmask(_signal.SIG_BLOCK, HANDLED_SIGNALS)
        try:
            while True:
                posix.read(self.timer, 8)
                self.listening = True
                if self.busy:
                    self._read()
                    while self.busy:
                        self._read()
                self.listening = False
                if self.returned.locked():
                    self.returned.release()
        except BaseException:
            posix._exit(EXIT_LOST)

    def _read(self) -> None:
        try:
            self._take(posix.read(self.channel.source, READ_BYTES))
        except FrameError as error:
            _die(f"malformed frame from the host: {error}")
        except BaseException:
            # User code closed the descriptor, or memory is short: the host must not be left
            # waiting.
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
