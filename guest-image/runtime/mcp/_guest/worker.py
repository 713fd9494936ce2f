"""The process that runs user code: takes `execute` frames one after another and answers each with `execution_done`."""

import _codecs
from _queue import Empty, SimpleQueue
import posix
import sys

from mcp._guest import environment
from mcp._guest.channel import Channel
from mcp._guest.execution import Execution, flush_streams
from mcp._guest.frames import FrameError
from mcp._guest.interrupts import Interrupts
from mcp._guest.preload import Preload
from mcp._guest.report import ready

__all__ = ["main"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

DEFAULT_OUTPUT_BYTES = 1 << 20
# Preloading begins only when no code comes at once after the start.
CALM_SECONDS = 0.02


def main(stdout: int, stderr: int, frames: int) -> "NoReturn":
    """Takes over the process; ends it with the host."""
    posix.setpgid(0, 0)
    channel = Channel(posix.dup(0), frames)
    null = posix.open("/dev/null", posix.O_RDONLY)
    for source, target in ((null, 0), (stdout, 1), (stderr, 2)):
        posix.dup2(source, target)
        posix.close(source)
    Worker(channel).run()


class Worker:
    """Ties the channel, the interrupts and the execution together."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.interrupts = Interrupts()
        self.interrupts.install()
        _codecs.register_error(environment.OUTPUT_ERRORS, environment.output_errors)
        self.execution = Execution(environment.prepare(), self.interrupts)
        self.runs: SimpleQueue[tuple[int, int, str, int]] = SimpleQueue()
        self.process = posix.getpid()
        posix.register_at_fork(after_in_child=channel.forget)

    def run(self) -> "NoReturn":
        """Tells the host that it is ready, then runs what comes."""
        self.channel.listen(self._receive)
        self.channel.send(ready())
        preload = Preload()
        while True:
            try:
                run, cell, code, output_bytes = self.runs.get(timeout=CALM_SECONDS if preload else None)
            except Empty:
                preload.step(self.runs.empty)
                continue
            self.channel.command(b"!begin %d\n" % output_bytes)
            outcome = self.execution.run(run, cell, code)
            self.interrupts.finish()
            if posix.getpid() != self.process:
                _end_child(outcome)
            self.channel.send(outcome, before=b"!end\n")

    def _receive(self, frame: dict[str, object]) -> None:
        """In the reader thread. Types that are not known are left to later versions."""
        if frame["type"] == "interrupt":
            self.interrupts.request(frame.get("id"))
        elif frame["type"] == "execute":
            run, code = frame.get("id"), frame.get("code")
            cell = frame.get("cell", run)
            limits = frame.get("limits")
            output_bytes = limits.get("output_bytes") if isinstance(limits, dict) else None
            if not (isinstance(run, int) and isinstance(cell, int) and isinstance(code, str)):
                raise FrameError("execute needs a number `id`, a number `cell` and a text `code`")
            if not isinstance(output_bytes, int) or output_bytes < 0:
                output_bytes = DEFAULT_OUTPUT_BYTES
            self.interrupts.accept(run)
            self.runs.put((run, cell, code, output_bytes))


def _end_child(outcome: dict[str, object]) -> "NoReturn":
    """A fork made by user code came to the end of the cell: it ends as a script would."""
    error = outcome["error"]
    if isinstance(error, dict) and error["type"] != "SystemExit":
        print(error["traceback"], file=sys.stderr)
    flush_streams()
    code = outcome["exit_code"]
    status = code if isinstance(code, int) else 0 if outcome["status"] == "success" else 1
    posix._exit(status & 0xFF)
