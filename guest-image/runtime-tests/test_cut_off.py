"""A user's signal handler may raise at any line of the runtime; what it interrupts must work
afterwards."""

from collections.abc import Callable
from functools import partial
import sys
from types import FrameType
from typing import Any

import pytest

from _mcp_guest.servers import proxies
from _mcp_guest.servers.proxies import ServerModule
from _mcp_guest.session import session
from _mcp_guest.state import saved_tools, sync
from host import server, tool

MOST_LINES = 2000


class Interruption(Exception):
    """What the handler raises."""


def interrupt(act: Callable[[], object], number: int, files: set[str]) -> bool:
    """Raises when `act` reaches its line of this number in these files; false if it ended
    before."""
    left = number

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise Interruption
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    except Interruption:
        return True
    finally:
        sys.settrace(before)
    return False


def every_line(make: Callable[[], Any], act: Callable[[Any], object], check: Callable[[Any], None], *files: Any) -> int:
    """Interrupts `act` at each of its lines in turn, each time on a new object; returns the number
    of lines."""
    names = {file.__file__ for file in files}
    for number in range(MOST_LINES):
        made = make()
        if not interrupt(partial(act, made), number, names):
            return number
        check(made)
    raise AssertionError("no end")


ECHO, ADD, PROMPTS = tool("echo"), tool("add"), tool("prompts", {"n": {"type": "integer"}})


def test_a_server_interrupted_while_its_tools_are_made_still_gets_them() -> None:
    def made() -> ServerModule:
        module = ServerModule("s", "s")
        module.__mcp_update__(server("s", ECHO, ADD))
        return module

    def check(module: ServerModule) -> None:
        assert module.__all__ == ["echo", "add"]
        assert repr(module) == "<mcp_s: 2 tools: echo, add>"
        assert (module.echo.tool, module.add.tool) == ("echo", "add")

    assert every_line(made, lambda module: module.echo, check, proxies) > 20


def test_a_server_interrupted_while_it_is_updated_is_updated_later() -> None:
    functions: list[Any] = []

    def made() -> ServerModule:
        module = ServerModule("s", "s")
        module.__mcp_update__(server("s", ECHO, PROMPTS))
        functions[:] = [module.echo, module.prompts]
        return module

    new = server("s", tool("echo", {"a": {"type": "string"}}, ["a"]), tool("prompts", {"m": {"type": "integer"}}))

    def check(module: ServerModule) -> None:
        # The host sends it again, or the first use finds it.
        module.__mcp_update__(new)
        assert module.echo is functions[0]
        assert module.prompts is functions[1]
        assert [str(one.__signature__) for one in functions] == ["(a: str)", "(m: int = ...)"]

    assert every_line(made, lambda module: module.__mcp_update__(new), check, proxies) > 30


def test_saved_tools_interrupted_while_they_are_bound_get_their_names_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(session._parts, "saved_tools", saved_tools.ToolLibrary(session))
    monkeypatch.setattr(session, "has_new_state", False)
    monkeypatch.setattr(session, "has_saved_tools", False)

    def made() -> dict[str, Any]:
        one, two = "def one():\n    return 1\n", "def two():\n    return 2\n"
        sync.receive({"tools": {"saved": [["one", one], ["two", two]], "own": "def three():\n    return 3\n"}})
        return {}

    def check(namespace: dict[str, Any]) -> None:
        if session.has_new_state:
            sync.apply("", namespace)
        assert sorted(namespace) == ["one", "three", "two"]

    assert every_line(made, lambda namespace: sync.apply("", namespace), check, saved_tools, sync) > 10
