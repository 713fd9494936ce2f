"""A small host for tests: starts a guest over pipes, sends frames and reads the replies, with a
time limit."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
import json
import os
from pathlib import Path
import select
import shlex
import subprocess
import sys
import time
from typing import Any

HERE = Path(__file__).resolve().parent
# Where the tests themselves run in an image, `GUEST_ENTRY` says where the runtime is.
RUNTIME = HERE.parent / "runtime"
if "GUEST_ENTRY" in os.environ and "GUEST_PYTHON" not in os.environ:
    RUNTIME = Path(os.environ["GUEST_ENTRY"]).parent
# The name of its folder marks it as library code, so that tracebacks do not show it.
OLDER_PYTHON = HERE / "site-packages" / "older_python.py"
PATIENCE_SECONDS = 30.0
Frame = dict[str, Any]


def command() -> list[str]:
    """How to start a guest: `GUEST_PYTHON` and `GUEST_ENTRY` choose another Python, perhaps in
    another root."""
    python = shlex.split(os.environ.get("GUEST_PYTHON", sys.executable))
    entry = [os.environ.get("GUEST_ENTRY", str(RUNTIME / "entry.py"))]
    if "GUEST_PYTHON" not in os.environ:
        entry.insert(0, str(OLDER_PYTHON))
    return [*python, "-I", "-S", *entry]


def is_pid_1() -> bool:
    """Whether guests started by `command` are alone in a PID namespace."""
    return os.environ.get("GUEST_IS_PID_1") == "1"


@dataclass(slots=True)
class Outcome:
    """Everything that came for one run."""

    stdout: bytes = b""
    stderr: bytes = b""
    done: Frame = field(default_factory=dict)
    frames: list[Frame] = field(default_factory=list)

    @property
    def status(self) -> str:
        return str(self.done["status"])

    @property
    def result(self) -> str | None:
        return None if self.done["result"] is None else str(self.done["result"]["repr"])

    @property
    def error(self) -> Frame:
        assert isinstance(self.done["error"], dict), self
        return self.done["error"]

    @property
    def traceback(self) -> str:
        return str(self.error["traceback"])

    def take(self, frame: Frame) -> None:
        self.frames.append(frame)
        kind = frame["type"]
        if kind in ("stdout", "stderr"):
            data = base64.b64decode(frame["base64"]) if "base64" in frame else frame["data"].encode()
            setattr(self, kind, getattr(self, kind) + data)
        elif kind == "execution_done":
            self.done = frame

    @property
    def displays(self) -> list[tuple[str, bytes]]:
        """The type and content of each display."""
        found = [frame for frame in self.frames if frame["type"] == "display"]
        return [
            (frame["mime"], base64.b64decode(frame["base64"]) if "base64" in frame else frame["data"].encode())
            for frame in found
        ]

    def dropped(self) -> dict[str, int]:
        found = [frame for frame in self.frames if frame["type"] == "dropped"]
        assert len(found) <= 1
        return {name: found[0][name] for name in ("stdout", "stderr")} if found else {"stdout": 0, "stderr": 0}


class Guest:
    """A running guest."""

    def __init__(self, directory: Path | None = None) -> None:
        self.process = subprocess.Popen(
            command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, cwd=directory
        )
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.stdin, self.stdout, self.stderr = self.process.stdin, self.process.stdout, self.process.stderr
        self.buffer = b""
        self.last = 0
        self.ready = self.next()
        assert self.ready["type"] == "ready", self.ready

    @property
    def version(self) -> tuple[int, ...]:
        """The version of the guest's Python, which may differ from that of the tests."""
        return tuple(int(part) for part in self.ready["python"].split("."))

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self.stdin.write(view) :]

    def send(self, **frame: object) -> None:
        self.write(json.dumps(frame).encode() + b"\n")

    def execute(self, code: str, output_bytes: int = 1 << 20, text_bytes: int = 32_000) -> int:
        self.last += 1
        limits = {"output_bytes": output_bytes, "text_bytes": text_bytes}
        self.send(type="execute", id=self.last, cell=self.last, code=code, limits=limits)
        return self.last

    def interrupt(self, run: int | None = None) -> None:
        self.send(type="interrupt", id=self.last if run is None else run)

    def line(self) -> bytes:
        """The next line; empty at the end of the stream."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.stdout], [], [], left)[0], f"silence; so far {self.buffer!r}"
            data = os.read(self.stdout.fileno(), 1 << 20)
            if not data:
                assert not self.buffer, f"a partial line at the end: {self.buffer!r}"
                return b""
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line

    def next(self) -> Frame:
        line = self.line()
        assert line, f"the guest ended: {self.stderr.read()!r}"
        frame = json.loads(line)
        assert isinstance(frame, dict)
        return frame

    def frames(self) -> Iterator[Frame]:
        """Frames up to the end of the stream."""
        while line := self.line():
            yield json.loads(line)

    def collect(self, outcome: Outcome | None = None) -> Outcome:
        """Reads to the end of the run."""
        outcome = outcome or Outcome()
        while not outcome.done:
            outcome.take(self.next())
        assert outcome.done["id"] == self.last
        return outcome

    def run(self, code: str, output_bytes: int = 1 << 20, text_bytes: int = 32_000) -> Outcome:
        self.execute(code, output_bytes, text_bytes)
        return self.collect()

    def check(self, code: str, output_bytes: int = 1 << 20, text_bytes: int = 32_000) -> Outcome:
        """Runs code that must succeed."""
        outcome = self.run(code, output_bytes, text_bytes)
        assert outcome.status == "success", outcome.done
        return outcome

    def until_output(self, text: bytes) -> Outcome:
        """Reads until stdout contains the text."""
        outcome = Outcome()
        while text not in outcome.stdout:
            outcome.take(self.next())
            assert not outcome.done, outcome
        return outcome

    def end(self) -> tuple[Outcome, int]:
        """Reads to the end of the stream; returns what came and the exit status of the process."""
        outcome = Outcome()
        for frame in self.frames():
            outcome.take(frame)
        return outcome, self.wait()

    def wait(self) -> int:
        return self.process.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        """Closes stdin, as a host does that ends; the guest must end soon."""
        for stream in (self.stdin, self.stdout, self.stderr):
            stream.close()
        try:
            self.process.wait(PATIENCE_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
