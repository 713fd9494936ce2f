"""Applies `state` frames: saved tools before the first code, project files later."""

import sys

from _mcp_guest.session import session

__all__ = ["apply", "receive"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any




def receive(frame: "dict[str, Any]") -> None:
    """Takes a frame in the reading thread."""
    tools = frame.get("tools")
    if isinstance(tools, dict):
        session.saved_tools.receive(tools.get("saved"), tools.get("own"))
    session.projects.receive(frame)
    session.has_new_state = True


def apply(code: str, namespace: "dict[str, Any]") -> None:
    """Before code is compiled: binds the names of saved tools, and writes files if the code may
    look at them."""
    projects = session.projects
    if projects.is_behind():
        projects.watch()
        if projects.is_mentioned(code):
            projects.catch_up()
    session.saved_tools.bind(namespace)
    if not projects.is_behind():
        # Last, and before what may be interrupted: a run that is interrupted here leaves the rest
        # to the next one.
        session.has_new_state = False
        for problem in projects.take_problems():
            print(problem, file=sys.stderr)
