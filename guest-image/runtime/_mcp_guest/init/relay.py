"""PID 1's work: one poll loop that relays output and frames to the host, reaps, and ends the guest
in time.

The loop never blocks on the host: while the host does not read, nothing is read from the worker,
whose writes then block.
"""

import _signal
import posix
import select
import time

from _mcp_guest.frames import EXIT_PROTOCOL, FRAME_LIMIT
from _mcp_guest.init.cgroup import oom_kills
from _mcp_guest.init.record import Record
from _mcp_guest.init.streams import FRAME_BYTES, Stream

__all__ = ["Pipes", "Relay"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

HOST_IN, HOST_OUT = 0, 1
FLUSH_SECONDS = 0.005
# No pipe is larger by default: draining this much takes all that was written before the drain
# began.
DRAIN_BYTES = 1 << 20
READ_BYTES = FRAME_BYTES // 2
LOST_CHANNEL_SECONDS = 0.2
CALM_MILLISECONDS = 20
# How long a dead worker's processes and their last output are waited for.
LAST_OUTPUT_SECONDS = 2.0
SMALL_READ = 4096
STARTS_BYTES = 4096
GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL


class Pipes:
    """One end of each pipe from the worker to init: its two streams, its frames, and its starts of
    runs."""

    __slots__ = ("frames", "starts", "stderr", "stdout")

    def __init__(self, stdout: int, stderr: int, frames: int, starts: int) -> None:
        self.stdout, self.stderr, self.frames, self.starts = stdout, stderr, frames, starts

    @classmethod
    def make(cls) -> "tuple[Pipes, Pipes]":
        """The reading ends, for init, and the writing ends, for the worker."""
        reading, writing = zip(*(posix.pipe() for _ in range(4)), strict=True)
        return cls(*reading), cls(*writing)

    def all(self) -> tuple[int, ...]:
        return self.stdout, self.stderr, self.frames, self.starts

    def close(self) -> None:
        for descriptor in self.all():
            posix.close(descriptor)


class Relay:
    """Owns the worker process and the connection to the host."""

    def __init__(self, worker: int, pipes: Pipes, record: Record | None) -> None:
        self.worker = worker
        self.record = record
        self.starts = pipes.starts
        self.announced = bytearray()
        # The cell of the run that has begun and not ended.
        self.cell: int | None = None
        self.status: int | None = None
        self.terminated = False
        # Processes killed for memory before this run; counted again after each run, once there is
        # nothing else to do.
        self.oom_kills = oom_kills()
        self.oom_kills_known = True
        out, err = record.rings if record is not None else (None, None)
        self.streams = (Stream("stdout", pipes.stdout, out), Stream("stderr", pipes.stderr, err))
        self.open = {stream.descriptor: stream for stream in self.streams}
        self.frames = pipes.frames
        self.partial = bytearray()
        self.lines: list[bytearray] = []
        self.pending = bytearray()
        self.flush_at: float | None = None
        self.pause_output = False
        self.lost_at: float | None = None
        self.wake, wake_write = posix.pipe()
        for descriptor in (HOST_OUT, *pipes.all(), self.wake, wake_write):
            posix.set_blocking(descriptor, False)
        for number in (_signal.SIGCHLD, _signal.SIGTERM):
            _signal.signal(number, lambda _number, _frame: None)
        # User code may signal PID 1, which must not get a KeyboardInterrupt.
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
        _signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self.blocked, self.quiet, self.all = select.poll(), select.poll(), select.poll()
        for poll in (self.blocked, self.quiet, self.all):
            poll.register(HOST_IN, 0)
            poll.register(self.wake, select.POLLIN)
            poll.register(HOST_OUT, select.POLLOUT if poll is self.blocked else 0)
        for poll in (self.quiet, self.all):
            poll.register(pipes.frames, select.POLLIN)
        for descriptor in (pipes.stdout, pipes.stderr):
            self.all.register(descriptor, select.POLLIN)

    def run(self) -> "NoReturn":
        """Relays until the worker is dead or the host is gone."""
        self._reap()
        while self.status is None:
            self._step()
        self._finish(self.status)

    def _step(self) -> None:
        if self.pending and not self._push():
            self._handle(self.blocked.poll())
            return
        if self.lines:
            self._relay()
            return
        timeout, poll = -1 if self.oom_kills_known else CALM_MILLISECONDS, self.all
        now = time.monotonic()
        if self.flush_at is not None:
            if now >= self.flush_at:
                self._flush(final=False)
                return
            timeout = int((self.flush_at - now) * 1000) + 1
        if self.pause_output:
            # Short writes one after another: let some accumulate, or each of them would wake this
            # process.
            timeout, poll, self.pause_output = 1, self.quiet, False
        if self.lost_at is not None:
            if now >= self.lost_at:
                self._kill()
                self.status = EXIT_PROTOCOL
                return
            timeout = 20
        events = poll.poll(timeout)
        if not (events or self.oom_kills_known):
            # A child killed for memory in an earlier run does not explain how the worker ends in
            # this one.
            self.oom_kills, self.oom_kills_known = oom_kills(), True
        self._handle(events)

    def _handle(self, events: list[tuple[int, int]]) -> None:
        for descriptor, event in events:
            if descriptor in self.open:
                self._read(self.open[descriptor])
            elif descriptor == self.frames:
                self._read_frames()
            elif descriptor == self.wake:
                self._handle_signals()
            elif descriptor in (HOST_IN, HOST_OUT) and event & GONE:
                self._abandon()

    def _read(self, stream: Stream) -> int:
        """Reads a pipe once; returns the number of bytes, 0 when there is nothing now or ever
        again."""
        try:
            data = posix.read(stream.descriptor, READ_BYTES)
        except BlockingIOError:
            return 0
        if not data:
            self.all.unregister(stream.descriptor)
            del self.open[stream.descriptor]
            return 0
        if self.cell is None:
            # The run that printed this has announced itself, so the output counts against its
            # budget.
            self._read_start()
        self.pending += stream.feed(data)
        if self.flush_at is None and stream.size:
            self.flush_at = time.monotonic() + FLUSH_SECONDS
        self.pause_output = len(data) < SMALL_READ
        return len(data)

    def _drain(self) -> None:
        for stream in list(self.open.values()):
            left = DRAIN_BYTES
            while left > 0:
                count = self._read(stream)
                left = left - count if count else 0

    def _flush(self, *, final: bool) -> None:
        for stream in self.streams:
            self.pending += stream.take(final=final)
        self.flush_at, self.pause_output = None, False

    def _read_frames(self) -> bool:
        """Reads the worker's frames once; false when there is nothing now or ever again."""
        if self.lost_at is not None:
            return False
        try:
            data = posix.read(self.frames, FRAME_BYTES)
        except BlockingIOError:
            return False
        if not data:
            # The worker is dying, or user code closed its channel, and the session cannot go on.
            for poll in (self.quiet, self.all):
                poll.unregister(self.frames)
            self.lost_at = time.monotonic() + LOST_CHANNEL_SECONDS
            return False
        self.partial += data
        if b"\n" in data:
            lines = self.partial.split(b"\n")
            self.partial = lines.pop()
            self.lines += lines
        if len(self.partial) > FRAME_LIMIT:
            self._kill()
            self.status = EXIT_PROTOCOL
            return False
        return True

    def _relay(self) -> None:
        """Passes frames on; output that was printed before them is in the pipes by now, and goes
        first."""
        lines, self.lines = self.lines, []
        self._drain()
        self._flush(final=True)
        for line in lines:
            if line != b"!end":
                self.pending += line
                self.pending += b"\n"
                continue
            if self.cell is None:
                self._read_start()
            self._report_dropped()
            self._end_run()

    def _read_start(self) -> None:
        """Reads `BYTES CELL`, the budget and number of a run that begins. Forging it is futile: the
        host has limits."""
        try:
            self.announced += posix.read(self.starts, STARTS_BYTES)
        except BlockingIOError:
            pass
        line, end, rest = self.announced.partition(b"\n")
        if not end and len(line) < STARTS_BYTES:
            return
        self.announced = rest
        budget, _, cell = line.partition(b" ")
        if budget.isdigit() and len(budget) < 16:
            for stream in self.streams:
                stream.begin(int(budget))
            self.cell = int(cell) if cell.isdigit() and len(cell) < 16 else 0

    def _report_dropped(self) -> None:
        out, err = self.streams
        if out.dropped or err.dropped or out.lost or err.lost:
            from binascii import b2a_base64

            tails = [b2a_base64(stream.tail(), newline=False).decode() for stream in self.streams]
            self.pending += (
                f'{{"type":"dropped","stdout":{out.dropped},"stderr":{err.dropped},'
                f'"lines":[{out.dropped_lines},{err.dropped_lines}],"lost":[{out.lost},{err.lost}],'
                f'"tails":["{tails[0]}","{tails[1]}"]}}\n'
            ).encode()

    def _end_run(self) -> None:
        printed = any(stream.total > stream.start for stream in self.streams)
        out, err = (stream.end_run() for stream in self.streams)
        if self.record is not None and printed:
            try:
                self.record.end_run(self.cell or 0, (out, err))
            except OSError:
                self.record = None
        self.cell, self.oom_kills_known = None, False

    def _handle_signals(self) -> None:
        if _signal.SIGTERM in posix.read(self.wake, 512):
            self.terminated = True
            self._kill()
        self._reap()

    def _reap(self) -> bool:
        """Reaps dead processes, orphans too; true once no child is left."""
        while True:
            try:
                pid, status = posix.waitpid(-1, posix.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self.worker:
                code = posix.waitstatus_to_exitcode(status)
                self.status = 128 - code if code < 0 else code

    def _out_of_memory(self) -> str:
        """Whether the kernel killed for memory since the last run began, in JSON; null where it
        does not count."""
        before, now = self.oom_kills, oom_kills()
        if before is None or now is None:
            return "null"
        return "true" if now > before else "false"

    def _push(self) -> bool:
        """Writes as much as the host takes now; true when nothing is left."""
        try:
            while self.pending:
                del self.pending[: posix.write(HOST_OUT, self.pending)]
        except BlockingIOError:
            return False
        except OSError:
            self._abandon()
        return True

    def _kill(self) -> None:
        """Kills every other process. Only PID 1 may signal all; elsewhere (in tests) the worker's
        group is enough."""
        try:
            if posix.getpid() == 1:
                posix.kill(-1, _signal.SIGKILL)
            else:
                posix.killpg(self.worker, _signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            if self.status is None and posix.getpid() != 1:
                posix.kill(self.worker, _signal.SIGKILL)

    def _abandon(self) -> "NoReturn":
        self._kill()
        posix._exit(0)

    def _finish(self, status: int) -> "NoReturn":
        """The worker is dead: sends its last output, the count of dropped bytes, and its status."""
        self._kill()
        deadline = time.monotonic() + LAST_OUTPUT_SECONDS
        while not self._reap() and time.monotonic() < deadline:
            if self.pending and not self._push():
                self._handle(self.blocked.poll(20))
            else:
                self._handle(self.all.poll(20))
        while self._read_frames():
            pass
        self._relay()
        self._flush(final=True)
        self._report_dropped()
        code = 128 + _signal.SIGTERM if self.terminated else status
        self.pending += f'{{"type":"exit","code":{code},"out_of_memory":{self._out_of_memory()}}}\n'.encode()
        while not self._push():
            self._handle(self.blocked.poll())
        posix._exit(code)
