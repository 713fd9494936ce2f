"""Interrupts by the host: SIGINT raises KeyboardInterrupt in user code of the run that is meant,
and nowhere else."""

import _signal
import _thread
from time import sleep

from _mcp_guest.worker.source import Location, is_user_code

__all__ = ["Interrupts"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


# A signal that has not been handled after this time is sent again.
RETRY_SECONDS = 0.05


class Interrupts:
    """Whether a run may be interrupted now, whether the host asked for that, and where the
    interrupt hit."""

    __slots__ = ("armed", "cancel", "delivered", "location", "lock", "main_thread", "requested", "run")

    def __init__(self) -> None:
        self.armed = False
        self.requested = False
        self.delivered = False
        self.run: int | None = None
        self.location: Location | None = None
        # Cancels the task that the event loop waits for.
        self.cancel: Callable[[], Location] | None = None
        self.lock = _thread.allocate_lock()
        self.main_thread = _thread.get_ident()

    def install(self) -> None:
        """Must run before anything imports `signal`, so that code which restores the default
        handler restores this one.

        The two are equal but deliberately not the same object: `asyncio.run` replaces what it takes
        for the default with a handler that only cancels its task, and a busy loop in a coroutine
        would never end.
        """
        _signal.default_int_handler = self._handle
        _signal.signal(_signal.SIGINT, self._handle)

    def accept(self, run: int) -> None:
        """Makes a run interruptible: when its `execute` arrives, in the reading thread, and when it
        begins.

        The second call is for a run that had to wait for another, which hosts should not cause.
        """
        with self.lock:
            if self.run is None:
                self.run, self.requested, self.delivered, self.location = run, False, False, None

    def request(self, run: object) -> None:
        """Called in the reading thread for each `interrupt`; one that comes too late does
        nothing."""
        with self.lock:
            if run == self.run and self.run is not None:
                self.requested, self.delivered = True, False
                _signal.pthread_kill(self.main_thread, _signal.SIGINT)
                try:
                    _thread.start_new_thread(self._repeat, (run,))
                except RuntimeError:
                    pass  # User code uses all threads that are allowed.

    def _repeat(self, run: object) -> None:
        """Repeats the signal: one just before a blocking system call is only handled when that call
        returns."""
        while True:
            sleep(RETRY_SECONDS)
            with self.lock:
                # The user's own handler gets one signal, as from a terminal.
                if run != self.run or self.delivered or _signal.getsignal(_signal.SIGINT) != self._handle:
                    return
                _signal.pthread_kill(self.main_thread, _signal.SIGINT)

    def finish(self) -> None:
        """Ends the run: later interrupts for it do nothing."""
        with self.lock:
            self.run = None

    def guard(self, act: "Callable[[], object]", *, first: bool = False) -> "tuple[object, BaseException | None]":
        """Runs what may be user code; KeyboardInterrupt can be raised only inside it. Returns the
        value or the error.

        Between the end of `act` and the stores to `armed`, Python does not run signal handlers
        outside the `try`.
        """
        try:
            self.armed = True
            if first and self.requested and not self.delivered:
                self.delivered = True
                raise KeyboardInterrupt
            value = act()
            self.armed = False
            return value, None
        except BaseException as error:
            self.armed = False
            return None, error

    def _handle(self, _number: int, frame: "FrameType | None") -> None:
        if not self.armed:
            return
        self.delivered = True
        while frame is not None and not is_user_code(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is not None:
            self.location = Location(frame.f_code, frame.f_lasti, frame.f_lineno)
        elif self.cancel is not None:
            # The event loop waits: an exception would leave the loop and not reach the waiting
            # code.
            self.location = self.cancel()
            return
        raise KeyboardInterrupt
