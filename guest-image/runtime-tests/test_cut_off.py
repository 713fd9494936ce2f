"""What a handler of the user's signals may cut off at any line, and what must be whole all the same afterwards."""

from collections.abc import Callable
import sys
from types import FrameType
from typing import Any

import pytest

from host import server, tool
from _mcp_guest.servers import proxies
from _mcp_guest.state import saved_tools
from _mcp_guest.state import sync as state
from _mcp_guest.worker.environment import kept
from _mcp_guest.servers.proxies import ServerModule

MOST_LINES = 2000


class Struck(Exception):
    """What the handler raises."""


def strike(act: Callable[[], object], number: int, files: set[str]) -> bool:
    """Raises at the line of this number that `act` comes to in these files; false where it ended before."""
    left = number

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise Struck
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    except Struck:
        return True
    finally:
        sys.settrace(before)
    return False


def every_line(make: Callable[[], Any], act: Callable[[Any], object], check: Callable[[Any], None], *files: Any) -> int:
    """Cuts `act` off at each of its lines in turn, on what `make` makes; the number of lines."""
    names = {file.__file__ for file in files}
    for number in range(MOST_LINES):
        made = make()
        if not strike(lambda made=made: act(made), number, names):  # type: ignore[misc]
            return number
        check(made)
    raise AssertionError("no end")


ECHO, ADD, PROMPTS = tool("echo"), tool("add"), tool("prompts", {"n": {"type": "integer"}})


def test_a_signal_while_tools_are_made_leaves_a_server_without_them() -> None:
    def made() -> ServerModule:
        module = ServerModule("s", "s")
        module.__mcp_update__(server("s", ECHO, ADD))
        return module

    def check(module: ServerModule) -> None:
        assert module.__all__ == ["echo", "add"]
        assert repr(module) == "<mcp_s: 2 tools: echo, add>"
        assert (module.echo.tool, module.add.tool) == ("echo", "add")

    assert every_line(made, lambda module: module.echo, check, proxies) > 20


def test_a_signal_while_tools_are_made_anew_leaves_some_of_them_as_they_were() -> None:
    held: list[Any] = []

    def made() -> ServerModule:
        module = ServerModule("s", "s")
        module.__mcp_update__(server("s", ECHO, PROMPTS))
        held[:] = [module.echo, module.prompts]
        return module

    new = server("s", tool("echo", {"a": {"type": "string"}}, ["a"]), tool("prompts", {"m": {"type": "integer"}}))

    def check(module: ServerModule) -> None:
        # As the host sends it once more, or as the first look finds it.
        module.__mcp_update__(new)
        assert module.echo is held[0]
        assert module.prompts is held[1]
        assert [str(one.__signature__) for one in held] == ["(a: str)", "(m: int = ...)"]

    assert every_line(made, lambda module: module.__mcp_update__(new), check, proxies) > 30


def test_a_signal_while_the_state_is_taken_up_leaves_saved_tools_without_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(saved_tools, "_library", saved_tools._Library())
    monkeypatch.setattr(kept, "arrived", False)
    monkeypatch.setattr(kept, "tools", False)

    def made() -> dict[str, Any]:
        one, two = "def one():\n    return 1\n", "def two():\n    return 2\n"
        state.receive({"tools": {"saved": [["one", one], ["two", two]], "own": "def three():\n    return 3\n"}})
        return {}

    def check(namespace: dict[str, Any]) -> None:
        if kept.arrived:
            state.begin("", namespace)
        assert sorted(namespace) == ["one", "three", "two"]

    assert every_line(made, lambda namespace: state.begin("", namespace), check, saved_tools, state) > 10
