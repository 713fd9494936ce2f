"""One cell, from source to the `execution_done` frame."""

from _contextvars import copy_context
import builtins
import sys
from time import perf_counter

from _mcp_guest.lazy import lazy
from _mcp_guest.session import session
from _mcp_guest.worker.environment import StandardStreams
from _mcp_guest.worker.interrupts import Interrupts
from _mcp_guest.worker.source import RESULT, compile_cell

__all__ = ["Execution", "failed_outcome", "flush_streams"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from _mcp_guest.display import display
    from _mcp_guest.state import sync
    from _mcp_guest.worker import hints, loop, tracebacks
    from _mcp_guest.worker.loop import Loop
else:
    display = lazy("_mcp_guest.display.display")
    sync = lazy("_mcp_guest.state.sync")
    hints = lazy("_mcp_guest.worker.hints")
    loop = lazy("_mcp_guest.worker.loop")
    tracebacks = lazy("_mcp_guest.worker.tracebacks")

COROUTINE = 0x80
# The last expression's value may take this part of the answer's text, within these bounds.
RESULT_PART = 4
LEAST_RESULT, MOST_RESULT = 200, 1 << 20
PLAIN = (int, float, bool)
_OUTCOME: "dict[str, object]" = {
    "type": "execution_done",
    "id": 0,
    "status": "success",
    "exit_code": None,
    "error": None,
    "result": None,
    "where": None,
    "timings": {"run_ms": 0.0},
}
EXIT_CODES = range(-(1 << 31), 1 << 32)


class Execution:
    """Runs cells one after another in one namespace, one context and one event loop."""

    def __init__(self, namespace: "dict[str, Any]", streams: StandardStreams, interrupts: Interrupts) -> None:
        self.namespace = namespace
        self.streams = streams
        self.interrupts = interrupts
        # Made for the first cell that awaits or mentions asyncio: few need it, and its import is
        # slow.
        self.loop: Loop | None = None
        # Context variables, such as decimal's context, last as other variables do, with and without
        # `await`.
        self.context = copy_context()

    def run(self, run: int, cell: int, code: str, text_bytes: int) -> "dict[str, object]":
        """The frame that reports how the run ended. Whatever user code raises is part of it."""
        started = perf_counter()
        filename = f"<cell {cell}>"
        # Warnings are shown once per line, and line 1 of this cell differs from line 1 of the
        # previous one.
        self.namespace.pop("__warningregistry__", None)
        guard = self.interrupts.guard
        value, error = guard(lambda: self._run(code, filename), first=True)
        run_ms = (perf_counter() - started) * 1000
        outcome: dict[str, object] = dict(_OUTCOME, id=run)
        if error is None and value is not None:
            limit = min(max(LEAST_RESULT, text_bytes // RESULT_PART), MOST_RESULT)
            shown, error = guard(lambda: self._show(value, limit))
            if error is None and shown is not None:
                outcome["result"] = {"repr": shown}
        if not self.interrupts.requested and "matplotlib._pylab_helpers" in sys.modules:
            _, failure = guard(display.show_open_figures)
            error = error or failure
        if error is not None:
            self._explain(error, outcome)
        guard(flush_streams)
        outcome["timings"] = {"run_ms": round(run_ms, 3)}
        return outcome

    def _run(self, code: str, filename: str) -> object:
        self.streams.renew()
        if session.has_new_state:
            sync.apply(code, self.namespace)
        compiled = compile_cell(code, filename)
        if session.has_saved_tools:
            session.saved_tools.resolve(compiled, self.namespace)
        try:
            is_coroutine = compiled.co_flags & COROUTINE
            if self.loop is None and (is_coroutine or "asyncio" in code):
                self.loop = loop.Loop(self.interrupts)
            if self.loop is None:
                self.context.run(exec, compiled, self.namespace)
            elif is_coroutine:
                self.loop.run(eval(compiled, self.namespace), self.context)
            else:
                self.loop.execute(compiled, self.namespace, self.context)
        finally:
            # A debugger or profiler ends with its cell: it must not call user code from within the
            # runtime.
            sys.settrace(None)
            sys.setprofile(None)
            value = self.namespace.pop(RESULT, None)
        return value

    def _show(self, value: object, limit: int) -> "str | None":
        vars(builtins)["_"] = value
        if type(value) in PLAIN and (type(value) is not int or -(1 << 63) < value < 1 << 63):
            return repr(value)
        return display.result(value, limit, self.namespace)

    def _explain(self, error: BaseException, outcome: "dict[str, object]") -> None:
        outcome["status"] = "error"
        if type(error) is NameError and str(error).startswith("name 'mcp_"):
            self.interrupts.guard(lambda: session.servers.explain(error))
        self.interrupts.guard(lambda: hints.add_hint(error))
        if isinstance(error, SystemExit):
            outcome["exit_code"] = 1
            outcome["error"] = {"type": "SystemExit", "message": "", "traceback": ""}
            self.interrupts.guard(lambda: _explain_exit(error, outcome))
            return
        if isinstance(error, KeyboardInterrupt) and self.interrupts.requested:
            outcome["status"] = "interrupted"
            location = self.interrupts.location
            outcome["where"] = str(location) if location else None
        described, failure = self.interrupts.guard(lambda: tracebacks.describe(error))
        if failure is not None:
            described = {
                "type": type(error).__name__,
                "message": f"(no description: {type(failure).__name__} was raised while it was made)",
                "traceback": "",
            }
        outcome["error"] = described


def _explain_exit(error: SystemExit, outcome: "dict[str, object]") -> None:
    """As the exit status of a script: None is 0, anything but a number is printed and means 1."""
    code = error.code
    number = 0 if code is None else 1
    if isinstance(code, int):
        number = int.__add__(code, 0)
        number = number if number in EXIT_CODES else -1
    elif code is not None:
        print(code, file=sys.stderr)
    outcome["exit_code"] = number
    outcome["status"] = "success" if number == 0 else "error"
    outcome["error"] = None if number == 0 else {"type": "SystemExit", "message": str(code), "traceback": ""}


def failed_outcome(run: int, error: BaseException) -> "dict[str, object]":
    """The outcome where the runtime itself could not continue, for lack of memory or stack, for
    example."""
    what = {"type": type(error).__name__, "message": "the run could not be brought to an end", "traceback": ""}
    return dict(_OUTCOME, id=run, status="error", error=what)


def flush_streams() -> None:
    """Flushes what was printed, also where user code has replaced the streams."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            if stream is not None:
                stream.flush()
        except Exception:
            pass
