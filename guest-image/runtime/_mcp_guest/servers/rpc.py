"""Calls from user code to the host: from any thread and any event loop, answered in the thread that reads frames.

A call is in `pending` from just before its request is sent until its response or its cancellation, and whoever takes
it out there ends it. Each step on the shared state is one operation that the interpreter does not divide, so there is
no lock that a signal, a fork or a dying thread could leave behind.
"""

from _collections import deque
import _thread
from itertools import count
import posix

from _mcp_guest.worker.channel import Channel, Undisturbed
from _mcp_guest.api.errors import MCPError, brief, from_host
from _mcp_guest.frames import encode, encode_exactly
from _mcp_guest.worker.inbox import Inbox
from _mcp_guest.lazy import load
from _mcp_guest.init.relay import FRAME_LIMIT

__all__ = ["Calls", "calls"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from collections.abc import Callable
    from typing import Any

# In flight at once; further calls wait in the guest.
IN_FLIGHT = 64
NOT_HERE = "tools can be used in the sandbox's main process only, not in a child process; threads and asyncio work"


class Call:
    """One request and the way to whoever waits for its response."""

    __slots__ = ("dropped", "frame", "future", "lock", "loop", "number", "request", "sent")

    def __init__(self, number: int, method: str, params: "dict[str, object]") -> None:
        self.number = number
        self.request: dict[str, object] = {
            "type": "rpc_request",
            "id": 0,
            "call": number,
            "method": method,
            "params": params,
        }
        self.frame: dict[str, object] | None = None
        self.sent = self.dropped = False
        self.loop: AbstractEventLoop | None = None
        self.future: Future[None] | None = None
        self.lock: Any = None


class Calls:
    """All calls of this process."""

    def __init__(self, channel: Channel, inbox: Inbox) -> None:
        self.channel, self.inbox = channel, inbox
        self.process = posix.getpid()
        self.main_thread = _thread.get_ident()
        self.numbers = count(1)
        self.pending: dict[int, Call] = {}
        self.waiting: deque[Call] = deque()
        self.run = 0
        self.running = False

    def begin(self, run: int) -> None:
        """A run begins: requests go out in its name, also those of threads that had to wait for it."""
        self.run, self.running = run, True
        self._pump()

    def finish(self) -> None:
        """No run: the host takes no requests."""
        self.running = False

    async def request(self, method: str, params: "dict[str, object]") -> object:
        """The payload of the response, or the exception it asks for. A cancelled task cancels its call."""
        call = self._new(method, params)
        call.loop = load("_asyncio").get_running_loop()
        assert call.loop is not None
        call.future = call.loop.create_future()
        try:
            self._undisturbed(self._submit, call)
            await call.future
        except BaseException:
            self._undisturbed(self._drop, call)
            raise
        return _payload(call)

    def request_sync(self, method: str, params: "dict[str, object]") -> object:
        """The same for code that does not await: blocks this thread. KeyboardInterrupt cancels the call."""
        call = self._new(method, params)
        call.lock = _thread.allocate_lock()
        call.lock.acquire()
        try:
            self._undisturbed(self._submit, call)
            while True:
                call.lock.acquire()
                if call.frame is not None:
                    return _payload(call)
                self._undisturbed(self._send, call)
        except BaseException:
            self._undisturbed(self._drop, call)
            raise

    def tell(self, line: bytes) -> None:
        """Sends a frame that has no answer."""
        if posix.getpid() != self.process:
            raise MCPError(NOT_HERE)
        self._undisturbed(self.channel.send, line)

    def take(self, frame: "dict[str, object]") -> None:
        """A response, in the thread that reads, which must not write: the host may be waiting for it to read."""
        number = frame.get("call")
        call = self.pending.pop(number, None) if isinstance(number, int) else None
        if call is None:
            return  # cancelled meanwhile
        call.frame = frame
        self._wake(call, _settle)
        self._pump()

    def _new(self, method: str, params: "dict[str, object]") -> Call:
        if posix.getpid() != self.process:
            raise MCPError(NOT_HERE)
        return Call(next(self.numbers), method, params)

    def _submit(self, call: Call) -> None:
        if self.running and not self.waiting and len(self.pending) < IN_FLIGHT:
            self.pending[call.number] = call
            self._send(call)
            return
        self.waiting.append(call)
        self._pump()

    def _pump(self) -> None:
        """Gives free places to those who wait; they send by themselves."""
        while self.waiting and self.running and len(self.pending) < IN_FLIGHT:
            try:
                call = self.waiting.popleft()
            except IndexError:
                return  # another thread was faster
            self.pending[call.number] = call
            if call.dropped or not self._wake(call, self._go):
                self.pending.pop(call.number, None)

    def _wake(self, call: Call, act: "Callable[[Call], None]") -> bool:
        if call.loop is None:
            call.lock.release()
            return True
        try:
            call.loop.call_soon_threadsafe(act, call)
        except RuntimeError:
            return False  # the loop was closed
        return True

    def _go(self, call: Call) -> None:
        """In the event loop of the caller."""
        try:
            self._undisturbed(self._send, call)
        except Exception as error:
            assert call.future is not None
            if not call.future.done():
                call.future.set_exception(error)

    def _send(self, call: Call) -> None:
        if call.dropped or call.number not in self.pending:
            return
        call.request["id"] = self.run
        self.channel.send(_line(call.request))
        self.inbox.expect()
        call.sent = True
        call.request = {}

    def _drop(self, call: Call) -> None:
        """Nobody waits for it any more."""
        call.dropped = True
        if self.pending.pop(call.number, None) is not None:
            if call.sent:
                self.channel.send(encode({"type": "rpc_cancel", "call": call.number}))
            self._pump()

    def _undisturbed(self, act: "Callable[[Any], None]", call: "Call | bytes") -> None:
        """In the main thread without its signal handlers: an exception of theirs would leave half a frame behind."""
        if posix.getpid() != self.process:
            return
        if _thread.get_ident() != self.main_thread:
            act(call)
            return
        with Undisturbed():
            act(call)


def _settle(call: Call) -> None:
    if call.future is not None and not call.future.done():
        call.future.set_result(None)


def _payload(call: Call) -> object:
    assert call.frame is not None
    if call.frame.get("success") is True:
        return call.frame.get("payload")
    raise from_host(call.frame.get("error"))


def _line(request: "dict[str, object]") -> bytes:
    params = request["params"]
    assert isinstance(params, dict)
    try:
        line = encode_exactly(request)
    except (TypeError, ValueError, RecursionError) as error:
        wrong = load("_mcp_guest.servers.arguments").not_json(params, error)
    else:
        if len(line) <= FRAME_LIMIT:
            return line
        wrong = f"too large: {len(line):,} bytes, of {FRAME_LIMIT:,} that a call may have"
    name = ".".join(str(params[key]) for key in ("server", "tool") if key in params)
    raise brief(TypeError(f"{name or request['method']}: {wrong}"))


class _Holder:
    """Where the worker puts the calls of its process."""

    current: Calls | None = None


holder = _Holder()


def calls() -> Calls:
    """Those of this process."""
    if holder.current is None:
        raise MCPError(NOT_HERE)
    return holder.current
