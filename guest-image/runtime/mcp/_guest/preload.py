"""Imports what user code likely needs while the worker has nothing to do, in small steps."""

from mcp._guest.loading import load

__all__ = ["Preload"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# In the order of their needs: each step then costs a few milliseconds at most.
MODULES = (
    "mcp._guest.projects", "mcp._guest.servers", "mcp._guest.saved_tools", "mcp._guest.memory", "_asyncio", "os",
    "linecache", "mcp._guest.tracebacks", "enum", "re", "collections",
    "functools", "signal", "contextlib", "types", "ast", "tokenize", "inspect", "traceback", "json", "typing",
    "mcp._guest.docs", "mcp._guest.results", "mcp._guest.display", "dataclasses", "warnings", "threading", "weakref",
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
