"""SIGINT at the host's wish: raises KeyboardInterrupt in user code of the run that was meant, and nowhere else."""

import _signal
import _thread
from time import sleep

from _mcp_guest.worker.source import Place, is_user_code

__all__ = ["Interrupts"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


# Before a signal that nobody has seen is sent again.
INSIST_SECONDS = 0.05


class Interrupts:
    """Whether a run may be interrupted now, whether the host asked for it, and where it struck."""

    __slots__ = ("armed", "cancel", "delivered", "lock", "main_thread", "place", "requested", "run")

    def __init__(self) -> None:
        self.armed = False
        self.requested = False
        self.delivered = False
        self.run: int | None = None
        self.place: Place | None = None
        self.cancel: Callable[[], Place] | None = None
        self.lock = _thread.allocate_lock()
        self.main_thread = _thread.get_ident()

    def install(self) -> None:
        """Must come before anything imports `signal`, so that code which restores the default handler restores this.

        The two are equal but not the same object, on purpose: `asyncio.run` would replace what it takes for the default
        by a handler that only cancels its task, and a busy loop in a coroutine would never end.
        """
        _signal.default_int_handler = self._strike
        _signal.signal(_signal.SIGINT, self._strike)

    def accept(self, run: int) -> None:
        """For each `execute`, as it comes (in the thread that reads) and again as it begins: now it can be interrupted.

        A run that waits behind another, which a host should not make, has its turn at the second call.
        """
        with self.lock:
            if self.run is None:
                self.run, self.requested, self.delivered, self.place = run, False, False, None

    def request(self, run: object) -> None:
        """Called in the thread that reads, for each `interrupt`; one that comes too late does nothing."""
        with self.lock:
            if run == self.run and self.run is not None:
                self.requested, self.delivered = True, False
                _signal.pthread_kill(self.main_thread, _signal.SIGINT)
                try:
                    _thread.start_new_thread(self._insist, (run,))
                except RuntimeError:
                    pass  # user code has taken all threads there may be

    def _insist(self, run: object) -> None:
        """One that comes just before a system call begins is seen when that call ends, which may be never."""
        while True:
            sleep(INSIST_SECONDS)
            with self.lock:
                # A handler of the user's own gets one signal, as from a terminal.
                if run != self.run or self.delivered or _signal.getsignal(_signal.SIGINT) != self._strike:
                    return
                _signal.pthread_kill(self.main_thread, _signal.SIGINT)

    def finish(self) -> None:
        """The run is over."""
        with self.lock:
            self.run = None

    def guard(self, act: "Callable[[], object]", *, first: bool = False) -> "tuple[object, BaseException | None]":
        """Runs what may be user code; KeyboardInterrupt can strike inside of it only.

        Nothing between the end of `act` and the stores to `armed` lets Python run a signal handler outside the `try`.
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

    def _strike(self, _number: int, frame: "FrameType | None") -> None:
        if not self.armed:
            return
        self.delivered = True
        while frame is not None and not is_user_code(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is not None:
            self.place = Place(frame.f_code, frame.f_lasti, frame.f_lineno)
        elif self.cancel is not None:
            # The event loop waits: an exception would come out of the loop and leave the waiting code as it is.
            self.place = self.cancel()
            return
        raise KeyboardInterrupt
