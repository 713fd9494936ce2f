"""Calls from user code to the host, from any thread and any event loop; the reading thread handles
the responses.

A call is in `pending` from just before its request is sent until its response or its cancellation,
and whoever removes it from there completes it. Each step on the shared state is one operation that
the interpreter does not interrupt, so no lock exists that a signal, a fork or a dying thread could
leave locked.
"""

from _collections import deque
import _thread
from itertools import count
import posix

from _mcp_guest.api.errors import MAIN_PROCESS_ONLY, MCPError, brief, from_host
from _mcp_guest.frames import FRAME_LIMIT, encode, encode_exactly
from _mcp_guest.lazy import lazy
from _mcp_guest.worker.channel import Channel, SignalsBlocked
from _mcp_guest.worker.inbox import Inbox

__all__ = ["Calls"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio as _asyncio
    from asyncio import AbstractEventLoop, Future
    from collections.abc import Callable
    from typing import Any

    from _mcp_guest.servers import arguments
else:
    _asyncio = lazy("_asyncio")
    arguments = lazy("_mcp_guest.servers.arguments")

# Calls in flight at once; further calls wait in the guest.
IN_FLIGHT = 64


class Call:
    """One request, and how to wake the code that waits for its response."""

    __slots__ = ("dropped", "frame", "future", "lock", "loop", "number", "request", "run", "sent", "what")

    def __init__(self, number: int, method: str, params: "dict[str, object]", run: int) -> None:
        """`run` is the run that the call belongs to; 0 between runs."""
        self.number, self.run = number, run
        # What is called, for messages: the server and tool where there are any.
        self.what = method, params.get("server"), params.get("tool")
        self.request: dict[str, object] = {
            "type": "rpc_request",
            "id": 0,
            "call": number,
            "method": method,
            "params": params,
        }
        self.frame: dict[str, object] | None = None
        self.sent = self.dropped = False
        # Of the caller: either an event loop with a future, or a lock.
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
        """A run begins: requests carry its number, also those of threads that had to wait for a
        run."""
        self.run, self.running = run, True
        self._admit()

    def finish(self) -> None:
        """The run is over: the host accepts no requests until the next one, and cancels those that
        it has. Whoever still waits gets an error, because no response will come."""
        self.running = False
        if self.pending or self.waiting:
            self._end_calls()

    def _end_calls(self) -> None:
        """Calls that were made between runs and not sent yet wait for a run; all others end."""
        kept: list[Call] = []
        while self.waiting:
            self._end_or_keep(self.waiting.popleft(), kept)
        for number in list(self.pending):
            call = self.pending.pop(number, None)
            if call is not None:
                self._end_or_keep(call, kept)
        self.waiting.extend(sorted(kept, key=lambda call: call.number))

    def _end_or_keep(self, call: Call, kept: "list[Call]") -> None:
        if call.dropped:
            return
        if not (call.sent or call.run):
            kept.append(call)
            return
        call.frame = {"success": False, "error": _run_ended(*call.what)}
        self._wake(call, _complete)

    async def request(self, method: str, params: "dict[str, object]") -> object:
        """The payload of the response; raises the error that it holds. Cancelling the task cancels
        the call."""
        call = self._new(method, params)
        call.loop = _asyncio.get_running_loop()
        call.future = call.loop.create_future()
        try:
            self._without_signals(self._submit, call)
            await call.future
        except BaseException:
            self._without_signals(self._drop, call)
            raise
        return _payload(call)

    def request_sync(self, method: str, params: "dict[str, object]") -> object:
        """The same without `await`: blocks this thread. KeyboardInterrupt cancels the call."""
        call = self._new(method, params)
        call.lock = _thread.allocate_lock()
        call.lock.acquire()
        try:
            self._without_signals(self._submit, call)
            while True:
                call.lock.acquire()
                if call.frame is not None:
                    return _payload(call)
                self._without_signals(self._send, call)
        except BaseException:
            self._without_signals(self._drop, call)
            raise

    def notify(self, line: bytes) -> None:
        """Sends a frame that has no response."""
        if posix.getpid() != self.process:
            raise MCPError(MAIN_PROCESS_ONLY)
        self._without_signals(self.channel.send, line)

    def handle_response(self, frame: "dict[str, object]") -> None:
        """Completes a call in the reading thread, which must not write: the host may wait for it to
        read."""
        number = frame.get("call")
        call = self.pending.pop(number, None) if isinstance(number, int) else None
        if call is None:
            return  # It was cancelled in the meantime.
        call.frame = frame
        self._wake(call, _complete)
        self._admit()

    def _new(self, method: str, params: "dict[str, object]") -> Call:
        if posix.getpid() != self.process:
            raise MCPError(MAIN_PROCESS_ONLY)
        return Call(next(self.numbers), method, params, self.run if self.running else 0)

    def _submit(self, call: Call) -> None:
        if self.running and not self.waiting and len(self.pending) < IN_FLIGHT:
            self.pending[call.number] = call
            self._send(call)
        else:
            self.waiting.append(call)
            self._admit()
        if call.run and not (self.running and self.run == call.run):
            self._end_late(call)

    def _end_late(self, call: Call) -> None:
        """Ends a thread's call whose run ended while it was submitted, unless `finish` has found
        it."""
        if self.pending.pop(call.number, None) is None:
            try:
                self.waiting.remove(call)
            except ValueError:
                return
        self._end_or_keep(call, [])

    def _admit(self) -> None:
        """Admits waiting calls while there is room; their own threads send them."""
        while self.waiting and self.running and len(self.pending) < IN_FLIGHT:
            try:
                call = self.waiting.popleft()
            except IndexError:
                return  # Another thread was faster.
            self.pending[call.number] = call
            if call.dropped or not self._wake(call, self._send_in_loop):
                self.pending.pop(call.number, None)

    def _wake(self, call: Call, act: "Callable[[Call], None]") -> bool:
        if call.loop is None:
            try:
                call.lock.release()
            except RuntimeError:
                pass  # Its thread was woken before, and has not looked yet.
            return True
        try:
            call.loop.call_soon_threadsafe(act, call)
        except RuntimeError:
            return False  # The loop was closed.
        return True

    def _send_in_loop(self, call: Call) -> None:
        try:
            self._without_signals(self._send, call)
        except Exception as error:
            assert call.future is not None
            if not call.future.done():
                call.future.set_exception(error)

    def _send(self, call: Call) -> None:
        if call.dropped or call.number not in self.pending:
            return
        call.request["id"] = self.run
        self.channel.send(_line(call.request))
        self.inbox.expect_frame()
        call.sent = True
        call.request = {}

    def _drop(self, call: Call) -> None:
        """The caller no longer waits."""
        call.dropped = True
        if self.pending.pop(call.number, None) is not None:
            if call.sent:
                self.channel.send(encode({"type": "rpc_cancel", "call": call.number}))
            self._admit()

    def _without_signals(self, act: "Callable[[Any], None]", call: "Call | bytes") -> None:
        """Blocks signal handlers in the main thread: an exception of theirs would leave half a
        frame behind."""
        if posix.getpid() != self.process:
            return
        if _thread.get_ident() != self.main_thread:
            act(call)
            return
        with SignalsBlocked():
            act(call)


def _complete(call: Call) -> None:
    if call.future is not None and not call.future.done():
        call.future.set_result(None)


def _run_ended(method: str, server: object, tool: object) -> "dict[str, object]":
    """The error of a call that its run has left behind."""
    what = ".".join(str(part) for part in (server, tool) if part is not None) or method
    message = f"{what}: cancelled, because the run in which it was called has ended; await it in the same cell"
    return {"type": "MCPError", "message": message, "server": server, "tool": tool}


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
        wrong = arguments.not_json(params, error)
    else:
        if len(line) <= FRAME_LIMIT:
            return line
        wrong = f"too large: {len(line):,} bytes, of {FRAME_LIMIT:,} that a call may have"
    name = ".".join(str(params[key]) for key in ("server", "tool") if key in params)
    raise brief(TypeError(f"{name or request['method']}: {wrong}"))
