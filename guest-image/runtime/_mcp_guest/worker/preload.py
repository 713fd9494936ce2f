"""Imports, while the worker is idle, what user code likely needs."""

from _mcp_guest.lazy import load

__all__ = ["step"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Each module after those that it imports, so that every step takes a few milliseconds at most.
MODULES = (
    "_mcp_guest.state.projects", "_mcp_guest.servers.registry", "_mcp_guest.state.saved_tools",
    "_mcp_guest.state.memory", "_mcp_guest.worker.loop", "_asyncio", "os", "linecache",
    "_mcp_guest.worker.tracebacks", "_mcp_guest.worker.hints",
    "enum", "re", "collections", "functools", "signal", "contextlib", "types",
    "ast", "tokenize", "inspect", "traceback", "json", "typing", "_mcp_guest.servers.docs",
    "_mcp_guest.servers.results", "_mcp_guest.display.display", "dataclasses", "warnings", "threading",
    "weakref", "selectors", "subprocess", "socket", "ssl", "logging", "concurrent.futures", "asyncio.events",
    "asyncio.base_events", "asyncio", "datetime", "pathlib", "random", "math",
)  # fmt: skip
_left = list(reversed(MODULES))


def step(is_idle: "Callable[[], bool]") -> bool:
    """Imports until all is done or `is_idle` is false; returns whether all is done."""
    while _left and is_idle():
        name = _left.pop()
        try:
            load(name)
        except ImportError:
            pass  # A slim image may lack it: user code that needs it gets the error.
    return not _left
