"""Imports what user code likely needs while the worker has nothing to do, in small steps."""

from _mcp_guest.lazy import load

__all__ = ["Preload"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# In the order of their needs: each step then costs a few milliseconds at most.
MODULES = (
    "_mcp_guest.state.projects", "_mcp_guest.servers.registry", "_mcp_guest.state.saved_tools", "_mcp_guest.state.memory", "_asyncio", "os",
    "linecache", "_mcp_guest.worker.tracebacks", "enum", "re", "collections",
    "functools", "signal", "contextlib", "types", "ast", "tokenize", "inspect", "traceback", "json", "typing",
    "_mcp_guest.servers.docs", "_mcp_guest.servers.results", "_mcp_guest.display.display", "dataclasses", "warnings", "threading", "weakref",
    "selectors", "subprocess", "socket", "ssl", "logging", "concurrent.futures", "asyncio.events",
    "asyncio.base_events", "asyncio", "datetime", "pathlib", "random", "math",
)  # fmt: skip


class Preload:
    """True while there is something left to import."""

    def __init__(self) -> None:
        self.left = list(reversed(MODULES))

    def __bool__(self) -> bool:
        return bool(self.left)

    def step(self, idle: "Callable[[], bool]") -> None:
        """Imports until done or until `idle` is false."""
        while self.left and idle():
            name = self.left.pop()
            try:
                load(name)
            except ImportError:
                pass  # a slim image may lack it; user code that needs it will say so
