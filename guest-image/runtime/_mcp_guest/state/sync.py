"""What the host keeps for every session: comes in `state` frames, saved tools before the first code, files later."""

import sys

from _mcp_guest.worker.environment import kept
from _mcp_guest.lazy import load

__all__ = ["begin", "receive"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def receive(frame: "dict[str, Any]") -> None:
    """In the thread that reads."""
    tools = frame.get("tools")
    if isinstance(tools, dict):
        load("_mcp_guest.state.saved_tools").receive(tools.get("saved"), tools.get("own"))
    load("_mcp_guest.state.projects").receive(frame)
    kept.arrived = True


def begin(code: str, namespace: "dict[str, Any]") -> None:
    """Before code is compiled: names of saved tools, and files where the code may look at them."""
    projects = load("_mcp_guest.state.projects")
    if projects.is_behind():
        projects.watch()
        if projects.NAME in code:
            projects.settle()
    load("_mcp_guest.state.saved_tools").bind(namespace)
    if not projects.is_behind():
        # Last, and before what may be interrupted: a run that is cut off here leaves the rest to the next one.
        kept.arrived = False
        for problem in projects.problems():
            print(problem, file=sys.stderr)
