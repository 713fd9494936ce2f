"""The loaded MCP servers as modules: `from mcp.servers.github import create_issue`."""

import sys

from _mcp_guest.servers.registry import Finder, absent, servers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# None of them is a file.
__path__ = []
sys.meta_path.insert(0, Finder())


def __getattr__(name: str) -> "Any":
    if name.startswith("__"):
        raise AttributeError(f"module 'mcp.servers' has no attribute {name!r}", name=name)
    for server in servers().values():
        if server.__mcp_state__.alias == name:
            return server
    raise absent(name, AttributeError)


def __dir__() -> "list[str]":
    return sorted(server.__mcp_state__.alias for server in servers().values())
