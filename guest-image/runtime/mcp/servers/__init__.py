"""The loaded MCP servers as modules: `from mcp.servers.github import create_issue`."""

import sys

from _mcp_guest.servers.registry import Finder
from _mcp_guest.session import session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Servers are not files.
__path__ = []
sys.meta_path.insert(0, Finder())


def __getattr__(name: str) -> "Any":
    if name.startswith("__"):
        raise AttributeError(f"module 'mcp.servers' has no attribute {name!r}", name=name)
    found = session.servers.by_alias.get(name)
    if found is None:
        raise session.servers.error(name, AttributeError)
    return found


def __dir__() -> "list[str]":
    return sorted(session.servers.by_alias)
