"""The process that runs user code: takes `execute` frames one after another and answers each with `execution_done`."""

from _collections import deque
import posix
import sys

from _mcp_guest.worker import environment
from _mcp_guest.state import files
from _mcp_guest.api import outputs as output
from _mcp_guest.display.budget import allowance
from _mcp_guest.worker.channel import Channel, Undisturbed, aside
from _mcp_guest.worker.environment import kept
from _mcp_guest.worker.execution import Execution, failed, flush_streams
from _mcp_guest.frames import FrameError, encode
from _mcp_guest.worker.inbox import Inbox
from _mcp_guest.worker.interrupts import Interrupts
from _mcp_guest.worker.limits import confine
from _mcp_guest.lazy import load
from _mcp_guest.worker.preload import Preload
from _mcp_guest.init.record import Index
from _mcp_guest.servers.rpc import Calls, holder

__all__ = ["Worker"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

DEFAULT_OUTPUT_BYTES = 1 << 20
DEFAULT_TEXT_BYTES = 32_000
# Preloading begins only when no code comes at once after the start.
CALM_SECONDS = 0.02
# Number, cell and code, and the frame that they came in.
Request = tuple[int, int, str, dict[str, object]]


class Worker:
    """Ties the channel, the interrupts and the execution together."""

    def __init__(self, channel: Channel, record: int | None) -> None:
        """`record`: the descriptor of what init keeps of the output."""
        self.channel = channel
        if record is not None:
            output.holder.index = Index(aside(record))
            posix.register_at_fork(after_in_child=output.holder.forget)
        self.interrupts = Interrupts()
        self.interrupts.install()
        # Code to run, and what the host wants of files between two runs.
        self.requests: deque[Request | dict[str, Any]] = deque()
        self.inbox = Inbox(channel, self._receive, self.requests)
        self.calls = holder.current = Calls(channel, self.inbox)
        self.execution = Execution(environment.prepare(), self.interrupts)
        self.begun: Request | None = None
        self.confined = False
        self.process = posix.getpid()
        posix.register_at_fork(after_in_child=channel.forget)
        posix.register_at_fork(after_in_child=self.inbox.forget)

    def run(self) -> "NoReturn":
        """Runs what comes, until the host is gone."""
        preload = Preload()
        while True:
            # Signal handlers that user code left behind, for an alarm say, may raise anywhere in here. A request stays
            # in its place until it is answered, so that none is lost by that, and none is run twice.
            try:
                if self.requests:
                    request = self.requests[0]
                    if isinstance(request, dict):
                        self._serve_files(request)
                    else:
                        self._serve(request)
                else:
                    self._wait(preload)
            except BaseException as error:
                self._report(error)

    def _wait(self, preload: Preload) -> None:
        files = kept.arrived and load("_mcp_guest.state.projects").busy()
        if self.inbox.wait(CALM_SECONDS if files or preload else None):
            return
        if files:
            load("_mcp_guest.state.projects").write(self.inbox.is_quiet)
        else:
            preload.step(self.inbox.is_quiet)

    def _serve(self, request: Request) -> None:
        run, cell, code, _ = request
        try:
            if self.begun is request:
                raise InterruptedError
            self._begin(request)
            outcome = self.execution.run(run, cell, code, allowance.text_bytes)
            changed, _ = self.interrupts.guard(load("_mcp_guest.state.projects").changes)
            if changed:
                outcome["projects"] = changed
        except BaseException as error:
            outcome = failed(run, error)
        with Undisturbed():
            if posix.getpid() != self.process:
                _end_child(outcome)
            self.interrupts.finish()
            self.calls.finish()
            outcome.update(files.folder.look())
            self._answer(run, outcome)
            self.requests.popleft()

    def _begin(self, request: Request) -> None:
        """Takes what comes with the code: servers told once must not be lost to a handler of the user's signals."""
        run, cell, code, frame = request
        with Undisturbed():
            self.begun = request
            self.inbox.lend()
            self.interrupts.accept(run)
            self._limit(frame.get("limits"), run, cell)
            if isinstance(names := frame.get("known"), list):
                kept.known = names
            # Hundreds may be known: code that speaks of none does not wait for them.
            if frame.get("servers") or frame.get("failed") or kept.speaking or "mcp_" in code:
                load("_mcp_guest.servers.registry").install(self.execution.namespace, frame)
            self.calls.begin(run)

    def _limit(self, limits: object, run: int, cell: int) -> None:
        limits = limits if isinstance(limits, dict) else {}
        open_files = limits.get("open_files")
        self.channel.begin(_size(limits.get("output_bytes"), DEFAULT_OUTPUT_BYTES), cell)
        output.holder.cell = cell
        allowance.begin(run, cell, _size(limits.get("text_bytes"), DEFAULT_TEXT_BYTES))
        # Once, before any code: what code sets for itself below that stays.
        if isinstance(open_files, int) and not self.confined:
            confine(open_files)
            self.confined = True

    def _serve_files(self, request: "dict[str, Any]") -> None:
        with Undisturbed():
            self.requests.popleft()
            projects = load("_mcp_guest.state.projects")
            if request["type"] == "collect":
                projects.collect(request, self.channel.send)
            else:
                projects.forget(request.get("paths"))

    def _answer(self, run: int, outcome: dict[str, object]) -> None:
        try:
            frame = encode(outcome)
        except BaseException as error:
            frame = encode(failed(run, error))
        self.channel.send(b"!end\n" + frame)

    def _report(self, error: BaseException) -> None:
        describe = load("_mcp_guest.worker.tracebacks").describe
        self.interrupts.guard(lambda: sys.stderr.write(describe(error)["traceback"] + "\n"))

    def _receive(self, frame: dict[str, object]) -> None:
        """In the thread that reads. Types that are not known are left to later versions."""
        if frame["type"] == "rpc_response":
            self.calls.take(frame)
        elif frame["type"] == "read_file":
            self.channel.send(encode(files.folder.answer(frame)))
        elif frame["type"] == "interrupt":
            self.interrupts.request(frame.get("id"))
        elif frame["type"] == "state":
            load("_mcp_guest.state.sync").receive(frame)
        elif frame["type"] in ("collect", "forget"):
            self.requests.append(frame)
        elif frame["type"] == "execute":
            run, code = frame.get("id"), frame.get("code")
            cell = frame.get("cell", run)
            if not (isinstance(run, int) and isinstance(cell, int) and isinstance(code, str)):
                raise FrameError("execute needs a number `id`, a number `cell` and a text `code`")
            self.interrupts.accept(run)
            self.requests.append((run, cell, code, frame))


def _size(number: object, usual: int) -> int:
    return number if isinstance(number, int) and number >= 0 else usual


def _end_child(outcome: dict[str, object]) -> "NoReturn":
    """A fork made by user code came to the end of the cell: it ends as a script would."""
    error = outcome["error"]
    if isinstance(error, dict) and error["type"] != "SystemExit":
        print(error["traceback"], file=sys.stderr)
    flush_streams()
    code = outcome["exit_code"]
    status = code if isinstance(code, int) else 0 if outcome["status"] == "success" else 1
    posix._exit(status & 0xFF)
