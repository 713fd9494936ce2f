"""The process that runs user code: takes `execute` frames one after another and answers each with
`execution_done`."""

from _collections import deque
import posix
import sys

from _mcp_guest.frames import FrameError, encode
from _mcp_guest.init.record import Index
from _mcp_guest.lazy import lazy
from _mcp_guest.servers.rpc import Calls
from _mcp_guest.session import session
from _mcp_guest.worker import environment
from _mcp_guest.worker.channel import Channel, SignalsBlocked, move_high
from _mcp_guest.worker.execution import Execution, failed_outcome, flush_streams
from _mcp_guest.worker.inbox import Inbox
from _mcp_guest.worker.interrupts import Interrupts
from _mcp_guest.worker.limits import confine

__all__ = ["Worker"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from _mcp_guest.state import sync
    from _mcp_guest.worker import preload, tracebacks
    from _mcp_guest.worker.loop import Loop
else:
    sync = lazy("_mcp_guest.state.sync")
    preload = lazy("_mcp_guest.worker.preload")
    tracebacks = lazy("_mcp_guest.worker.tracebacks")

DEFAULT_OUTPUT_BYTES = 1 << 20
DEFAULT_TEXT_BYTES = 32_000
# Preloading starts only if no code comes within this time after the start.
PRELOAD_DELAY_SECONDS = 0.02
# Run, cell and code, and the frame that they came in.
Request = tuple[int, int, str, dict[str, object]]


class Worker:
    """Connects the channel, the interrupts and the execution of cells."""

    def __init__(self, channel: Channel, record: int | None) -> None:
        """`record` is the descriptor of the output of earlier runs."""
        self.channel = channel
        if record is not None:
            session.output_index = Index(move_high(record))
        self.interrupts = Interrupts()
        self.interrupts.install()
        # Code to run, and requests about project files, which are served between runs.
        self.requests: deque[Request | dict[str, Any]] = deque()
        self.inbox = Inbox(channel, self._receive, self.requests)
        self.calls = session.active_calls = Calls(channel, self.inbox)
        self.execution = Execution(environment.prepare(), environment.StandardStreams(), self.interrupts)
        self.begun: Request | None = None
        self.confined = False
        self.preloaded = False
        self.process = posix.getpid()
        for after_fork in (session.after_fork, channel.after_fork, self.inbox.after_fork):
            posix.register_at_fork(after_in_child=after_fork)

    def run(self) -> "NoReturn":
        """Serves requests until the host is gone."""
        while True:
            # Signal handlers of user code, for an alarm for example, may raise anywhere in here. A
            # request stays in the queue until it is answered, so that none is lost and none is run
            # twice.
            try:
                if self.requests:
                    request = self.requests[0]
                    if isinstance(request, dict):
                        self._serve_files(request)
                    else:
                        self._serve(request)
                else:
                    self._wait()
            except BaseException as error:
                self._print_error(error)

    def _wait(self) -> None:
        has_files = session.has_new_state and session.projects.has_writes()
        if self.execution.loop is not None and not has_files and self.execution.loop.has_tasks():
            self._run_tasks(self.execution.loop)
            return
        if self.inbox.wait(PRELOAD_DELAY_SECONDS if has_files or not self.preloaded else None):
            return
        if has_files:
            session.projects.write(self.inbox.is_quiet)
        else:
            self.preloaded = preload.step(self.inbox.is_quiet)

    def _run_tasks(self, loop: "Loop") -> None:
        """Background tasks go on until the next request, which the reader thread receives."""
        self.inbox.begin_run()
        _, error = self.interrupts.guard(lambda: loop.idle(lambda: bool(self.requests)))
        if isinstance(error, KeyboardInterrupt) and self.interrupts.requested:
            # A task blocked the loop, and the host interrupts the run that had to wait for it.
            self.interrupts.delivered = False
        elif error is not None:
            self._print_error(error)

    def _serve(self, request: Request) -> None:
        run, cell, code, _ = request
        try:
            if self.begun is request:
                raise InterruptedError
            self._begin(request)
            outcome = self.execution.run(run, cell, code, session.display_budget.text_bytes)
            changed, _ = self.interrupts.guard(session.projects.changes)
            if changed:
                outcome["projects"] = changed
        except BaseException as error:
            outcome = failed_outcome(run, error)
        with SignalsBlocked():
            if posix.getpid() != self.process:
                _end_child(outcome)
            self.interrupts.finish()
            self.calls.finish()
            outcome.update(session.output_folder.list_files())
            self._answer(run, outcome)
            self.requests.popleft()

    def _begin(self, request: Request) -> None:
        """Applies what comes with the code. Servers are sent once: no signal handler may make it
        lose them."""
        run, cell, code, frame = request
        with SignalsBlocked():
            self.begun = request
            self.inbox.begin_run()
            self.interrupts.accept(run)
            self._set_limits(frame.get("limits"), run, cell)
            if isinstance(names := frame.get("known"), list):
                session.known_servers = names
            # Hundreds may be known: code that does not mention servers does not wait for them.
            if frame.get("servers") or frame.get("failed") or session.tools_mention_servers or "mcp_" in code:
                session.servers.install(self.execution.namespace, frame)
            self.calls.begin(run)

    def _set_limits(self, limits: object, run: int, cell: int) -> None:
        limits = limits if isinstance(limits, dict) else {}
        open_files = limits.get("open_files")
        self.channel.announce_run(_size(limits.get("output_bytes"), DEFAULT_OUTPUT_BYTES), cell)
        session.cell = cell
        session.display_budget.begin(run, _size(limits.get("text_bytes"), DEFAULT_TEXT_BYTES))
        # Once, before any code runs: lower limits that code sets for itself stay.
        if isinstance(open_files, int) and not self.confined:
            confine(open_files)
            self.confined = True

    def _serve_files(self, request: "dict[str, Any]") -> None:
        with SignalsBlocked():
            self.requests.popleft()
            if request["type"] == "collect":
                session.projects.collect(request, self.channel.send)
            else:
                session.projects.forget(request.get("paths"))

    def _answer(self, run: int, outcome: dict[str, object]) -> None:
        try:
            frame = encode(outcome)
        except BaseException as error:
            frame = encode(failed_outcome(run, error))
        self.channel.send(b"!end\n" + frame)

    def _print_error(self, error: BaseException) -> None:
        self.interrupts.guard(lambda: sys.stderr.write(tracebacks.describe(error)["traceback"] + "\n"))

    def _receive(self, frame: dict[str, object]) -> None:
        """Handles a frame in the reading thread. Unknown types are ignored: a newer host may send
        them."""
        if frame["type"] == "rpc_response":
            self.calls.handle_response(frame)
        elif frame["type"] == "read_file":
            self.channel.send(encode(session.output_folder.answer(frame)))
        elif frame["type"] == "interrupt":
            self.interrupts.request(frame.get("id"))
        elif frame["type"] == "state":
            sync.receive(frame)
        elif frame["type"] in ("collect", "forget"):
            self._queue(frame)
        elif frame["type"] == "execute":
            run, code = frame.get("id"), frame.get("code")
            cell = frame.get("cell", run)
            if not (isinstance(run, int) and isinstance(cell, int) and isinstance(code, str)):
                raise FrameError("execute needs a number `id`, a number `cell` and a text `code`")
            self.interrupts.accept(run)
            self._queue((run, cell, code, frame))

    def _queue(self, request: "Request | dict[str, Any]") -> None:
        self.requests.append(request)
        if self.execution.loop is not None:
            self.execution.loop.wake()


def _size(number: object, default: int) -> int:
    return number if isinstance(number, int) and number >= 0 else default


def _end_child(outcome: dict[str, object]) -> "NoReturn":
    """Ends a child that user code forked and that reached the end of the cell, as the end of a
    script would."""
    error = outcome["error"]
    if isinstance(error, dict) and error["type"] != "SystemExit":
        print(error["traceback"], file=sys.stderr)
    flush_streams()
    code = outcome["exit_code"]
    status = code if isinstance(code, int) else 0 if outcome["status"] == "success" else 1
    posix._exit(status & 0xFF)
