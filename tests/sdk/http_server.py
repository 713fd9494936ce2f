"""A server as people write them with the official Python SDK, over streamable HTTP on a free port.

Runs with both majors of the SDK: `FastMCP` of the first is `MCPServer` in the second. Prints the address it listens on.
"""

from __future__ import annotations

import importlib
import socket
from typing import Any

from pydantic import BaseModel
import uvicorn

try:
    home, name = importlib.import_module("mcp.server.mcpserver"), "MCPServer"
except ModuleNotFoundError:
    home, name = importlib.import_module("mcp.server.fastmcp"), "FastMCP"
Server: Any = getattr(home, name)
Context: Any = home.Context
ToolError: Any = importlib.import_module(f"{home.__name__}.exceptions").ToolError

server = Server("shop")


@server.tool()  # type: ignore[untyped-decorator]
def price(items: list[str], currency: str = "EUR") -> dict[str, Any]:
    """The price of some items."""
    return {"total": 3 * len(items), "currency": currency}


@server.tool()  # type: ignore[untyped-decorator]
def fail(reason: str) -> str:
    """Fails."""
    raise ToolError(reason)


class Answer(BaseModel):
    sure: bool


@server.tool()  # type: ignore[untyped-decorator]
async def confirm(question: str, context: Context) -> str:
    """Asks the user."""
    answer = await context.elicit(question, Answer)
    return f"{answer.action} {answer.data.sure}" if answer.action == "accept" else str(answer.action)


listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="warning")).run([listener])
