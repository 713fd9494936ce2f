"""One cell from source to the `execution_done` frame."""

from _contextvars import copy_context
import builtins
import sys
from time import perf_counter

from _mcp_guest.worker.environment import kept, renew_streams
from _mcp_guest.worker.interrupts import Interrupts
from _mcp_guest.lazy import load
from _mcp_guest.worker.loop import Loop
from _mcp_guest.worker.source import RESULT, compile_cell

__all__ = ["Execution", "failed", "flush_streams"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COROUTINE = 0x80
# Of the text of an answer, what the last expression may have.
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

    def __init__(self, namespace: "dict[str, Any]", interrupts: Interrupts) -> None:
        self.namespace = namespace
        self.interrupts = interrupts
        self.loop = Loop(interrupts)
        # Context variables, decimal's context among them, last like ordinary variables, with and without `await`.
        self.context = copy_context()

    def run(self, run: int, cell: int, code: str, text_bytes: int) -> "dict[str, object]":
        """The frame that tells how it went. Whatever user code raises ends up in it."""
        started = perf_counter()
        filename = f"<cell {cell}>"
        # Warnings are shown once per line, and line 1 of this cell is another one than line 1 of the last.
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
            _, failure = guard(lambda: load("_mcp_guest.display.display").finish())
            error = error or failure
        if error is not None:
            self._explain(error, outcome)
        guard(flush_streams)
        outcome["timings"] = {"run_ms": round(run_ms, 3)}
        return outcome

    def _run(self, code: str, filename: str) -> object:
        renew_streams()
        if kept.arrived:
            load("_mcp_guest.state.sync").begin(code, self.namespace)
        compiled = compile_cell(code, filename)
        if kept.tools:
            load("_mcp_guest.state.saved_tools").resolve(compiled, self.namespace)
        try:
            if compiled.co_flags & COROUTINE:
                self.loop.run(eval(compiled, self.namespace), self.context)
            else:
                self.context.run(exec, compiled, self.namespace)
        finally:
            # A debugger or profiler ends with its cell: it must not call user code from within the runtime.
            sys.settrace(None)
            sys.setprofile(None)
            value = self.namespace.pop(RESULT, None)
        return value

    def _show(self, value: object, limit: int) -> "str | None":
        builtins._ = value  # type: ignore[attr-defined]
        if type(value) in PLAIN and (type(value) is not int or -(1 << 63) < value < 1 << 63):
            return repr(value)
        return load("_mcp_guest.display.display").result(value, limit, self.namespace)  # type: ignore[no-any-return]

    def _explain(self, error: BaseException, outcome: "dict[str, object]") -> None:
        outcome["status"] = "error"
        if type(error) is NameError and str(error).startswith("name 'mcp_"):
            self.interrupts.guard(lambda: load("_mcp_guest.servers.registry").explain(error))
        if isinstance(error, SystemExit):
            outcome["exit_code"] = 1
            outcome["error"] = {"type": "SystemExit", "message": "", "traceback": ""}
            self.interrupts.guard(lambda: _explain_exit(error, outcome))
            return
        if isinstance(error, KeyboardInterrupt) and self.interrupts.requested:
            outcome["status"] = "interrupted"
            place = self.interrupts.place
            outcome["where"] = str(place) if place else None
        described, failure = self.interrupts.guard(lambda: load("_mcp_guest.worker.tracebacks").describe(error))
        if failure is not None:
            described = {
                "type": type(error).__name__,
                "message": f"(no description: {type(failure).__name__} was raised while it was made)",
                "traceback": "",
            }
        outcome["error"] = described


def _explain_exit(error: SystemExit, outcome: "dict[str, object]") -> None:
    """As the exit status of a script: none is 0, anything but a number is printed and is 1."""
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


def failed(run: int, error: BaseException) -> "dict[str, object]":
    """The outcome where the runtime itself could not go on, for lack of memory or stack, say."""
    what = {"type": type(error).__name__, "message": "the run could not be brought to an end", "traceback": ""}
    return dict(_OUTCOME, id=run, status="error", error=what)


def flush_streams() -> None:
    """Brings out what was printed, also where user code put other streams in place."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()  # type: ignore[union-attr]
        except Exception:
            pass
