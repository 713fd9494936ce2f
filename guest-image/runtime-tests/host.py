"""The host's side of calls, for tests: handlers answer a guest's requests at once, or the test does
later."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
import json
from pathlib import Path
from typing import Any

from guest import Frame, Guest, Outcome

Handler = Callable[[Frame], Any]


@dataclass
class Fail(Exception):
    """What a handler raises to answer with an error."""

    type: str
    message: str
    more: Frame = field(default_factory=dict)


class Silence(Exception):
    """What a handler raises to leave a call open."""


def text(value: str, **more: object) -> Frame:
    """A result of one text block."""
    return {"content": [{"type": "text", "text": value}], **more}


def tool(name: str, properties: Frame | None = None, required: list[str] | None = None, **more: object) -> Frame:
    """A tool as `execute` frames have it."""
    schema = {"type": "object", "properties": properties or {}, "required": required or []}
    return {"name": name, "input_schema": schema, **more}


def server(name: str, *tools: Frame, **more: object) -> Frame:
    return {"name": name, "tools": list(tools), **more}


class Host:
    """A guest, and the handlers that answer its requests."""

    def __init__(self, guest: Guest) -> None:
        self.guest = guest
        self.handlers: dict[str, Handler] = {"call_tool": self.echo}
        self.requests: list[Frame] = []
        self.cancelled: list[int] = []
        self.fetches = 0
        self.on_fetch: Callable[[], None] = lambda: None

    @staticmethod
    def echo(params: Frame) -> Any:
        """A result with the arguments as structured content."""
        return {"content": [], "structuredContent": params["arguments"]}

    def execute(
        self,
        code: str,
        servers: list[Frame] | None = None,
        known: list[str] | None = None,
        failed: list[Frame] | None = None,
    ) -> int:
        self.guest.last += 1
        number = self.guest.last
        more: Frame = {}
        if servers is not None:
            more["servers"] = servers
        if known is not None:
            more["known"] = known
        if failed is not None:
            more["failed"] = failed
        limits = {"output_bytes": 1 << 26}
        self.guest.send(type="execute", id=number, cell=number, code=code, limits=limits, **more)
        return number

    def run(
        self,
        code: str,
        servers: list[Frame] | None = None,
        known: list[str] | None = None,
        failed: list[Frame] | None = None,
    ) -> Outcome:
        self.execute(code, servers, known, failed)
        return self.collect()

    def check(self, code: str, servers: list[Frame] | None = None, known: list[Any] | None = None) -> Outcome:
        """Runs code that must succeed."""
        outcome = self.run(code, servers, known)
        assert outcome.status == "success", outcome.done["error"]
        return outcome

    def value(self, code: str, servers: list[Frame] | None = None, known: list[Any] | None = None) -> str | None:
        """`repr` of the last expression."""
        return self.check(code, servers, known).result

    def collect(self) -> Outcome:
        """Reads to the end of the run, and answers requests."""
        outcome = Outcome()
        for frame in self.frames():
            outcome.take(frame)
            if outcome.done:
                assert outcome.done["id"] == self.guest.last
                return outcome
        raise AssertionError("no end of the run")

    def frames(self) -> Iterator[Frame]:
        """Frames from the guest; each request among them is answered before the next frame is
        read."""
        while True:
            frame = self.guest.next()
            if frame["type"] == "rpc_request":
                self.requests.append(frame)
                self.answer(frame)
            elif frame["type"] == "rpc_cancel":
                self.cancelled.append(frame["call"])
            elif frame["type"] == "fetch":
                self.fetches += 1
                self.on_fetch()
            yield frame

    def answer(self, request: Frame) -> None:
        try:
            payload = self.handlers[request["method"]](request["params"])
        except Silence:
            return
        except Fail as error:
            failure = {"type": error.type, "message": error.message, **error.more}
            self.guest.send(type="rpc_response", call=request["call"], success=False, error=failure)
        else:
            self.respond(request["call"], payload)

    def respond(self, call: int, payload: object) -> None:
        frame = {"type": "rpc_response", "call": call, "success": True, "payload": payload}
        self.guest.write(json.dumps(frame, ensure_ascii=False).encode() + b"\n")

    def until_requests(self, count: int) -> list[Frame]:
        """Reads until this many requests have come in total."""
        frames = self.frames()
        while len(self.requests) < count:
            frame = next(frames)
            assert frame["type"] != "execution_done", frame
        return self.requests


def host_at(directory: Path) -> Host:
    return Host(Guest(directory))
