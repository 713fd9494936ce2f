"""Helpers for code in the sandbox: servers, their tools and docs, calls by name, memories, saved
tools and output."""

from _mcp_guest.api.errors import MCPError, ToolError
from _mcp_guest.api.manual import documented, installed, text
from _mcp_guest.lazy import lazy
from _mcp_guest.session import session

__all__ = [
    "MCPError",
    "ToolError",
    "call_tool",
    "call_tool_sync",
    "capability_summary",
    "delete_memory",
    "delete_tool",
    "describe_server",
    "discovered_servers",
    "get_memory_info",
    "list_loaded_server_metadata",
    "list_memories",
    "list_servers",
    "list_servers_sync",
    "list_tools",
    "list_tools_sync",
    "load_memory",
    "memory_exists",
    "query_tool_docs",
    "query_tool_docs_sync",
    "save_memory",
    "save_tool",
    "saved_tools",
    "search_tool_docs",
    "search_tool_docs_sync",
    "show",
    "update_memory",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from _mcp_guest.api import outputs as run_outputs
    from _mcp_guest.display import display
    from _mcp_guest.servers import docs as tool_docs
    from _mcp_guest.servers import naming, results
    from _mcp_guest.servers.docs import Docs
    from _mcp_guest.servers.proxies import ServerModule
    from _mcp_guest.state import memory, saving
else:
    run_outputs = lazy("_mcp_guest.api.outputs")
    display = lazy("_mcp_guest.display.display")
    tool_docs = lazy("_mcp_guest.servers.docs")
    naming = lazy("_mcp_guest.servers.naming")
    results = lazy("_mcp_guest.servers.results")
    memory = lazy("_mcp_guest.state.memory")
    saving = lazy("_mcp_guest.state.saving")


@documented
def capability_summary() -> str:
    return text() + installed()


@documented
def show(*values: object) -> None:
    display.show(*values)


def __getattr__(name: str) -> "Any":
    if name == "last_output":
        return run_outputs.last()
    if name == "outputs":
        return run_outputs.outputs()
    raise AttributeError(f"module 'mcp.runtime' has no attribute {name!r}", name=name)


def _is_loaded(server: str) -> bool:
    return server in session.servers.loaded


def _call(server: str, tool: str, arguments: "dict[str, Any] | None") -> "tuple[dict[str, Any], dict[str, Any]]":
    """The parameters of the request, and the arguments that unwrap its result."""
    if arguments is not None and not isinstance(arguments, dict):
        raise TypeError(f"call_tool: arguments must be a dict or None, not {type(arguments).__name__}")
    state = session.servers.module(server).__mcp_ready__()
    if state.failure:
        raise MCPError(state.failure)
    known = state.find(str(tool))
    wire = known.wire if known is not None else str(tool)
    params = {"server": state.name, "tool": wire, "arguments": dict(arguments or {})}
    return params, {"server": state.name, "tool": wire, "wrapped": known is not None and known.wrapped}


@documented
async def call_tool(server: str, tool: str, arguments: "dict[str, Any] | None" = None) -> "Any":
    params, context = _call(server, tool, arguments)
    return results.unwrap(await session.calls.request("call_tool", params), **context)


@documented
def call_tool_sync(server: str, tool: str, arguments: "dict[str, Any] | None" = None) -> "Any":
    params, context = _call(server, tool, arguments)
    return results.unwrap(session.calls.request_sync("call_tool", params), **context)


@documented
async def list_tools(server: str) -> "list[dict[str, Any]]":
    name = session.servers.module(server).__mcp_state__.name
    payload = await session.calls.request("list_tools", {"server": name})
    found = payload.get("tools") if isinstance(payload, dict) else payload
    tools = [tool for tool in found if isinstance(tool, dict)] if isinstance(found, list) else []
    names = naming.aliases([str(tool.get("name", "")) for tool in tools], "tool")
    return [_listed(tool, names[str(tool.get("name", ""))]) for tool in tools]


@documented
def list_tools_sync(server: str) -> "tuple[dict[str, Any], ...]":
    state = session.servers.module(server).__mcp_ready__()
    return tuple(_listed(tool.definition, tool.alias) for tool in state.offered())


def _listed(tool: "dict[str, Any]", alias: str) -> "dict[str, Any]":
    return {
        "name": tool.get("name"),
        "alias": tool.get("alias", alias),
        "description": tool.get("description"),
        "input_schema": tool.get("input_schema", tool.get("inputSchema", {})),
    }


@documented
async def list_servers() -> "tuple[str, ...]":
    return tuple(session.servers.loaded)


@documented
def list_servers_sync() -> "tuple[str, ...]":
    return tuple(session.servers.loaded)


@documented
def discovered_servers(detailed: bool = False) -> "tuple[Any, ...]":
    payload = session.calls.request_sync("discovered_servers", {"detailed": bool(detailed)})
    found: Any = payload.get("servers") if isinstance(payload, dict) else payload
    entries = [{"name": entry} if isinstance(entry, str) else entry for entry in found or ()]
    entries = [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("name"), str)]
    if not detailed:
        return tuple(entry["name"] for entry in entries)
    return tuple({"description": None, **entry, "loaded": _is_loaded(entry["name"])} for entry in entries)


@documented
def describe_server(name: str) -> "dict[str, Any]":
    loaded = session.servers.loaded.get(name) or session.servers.by_alias.get(name)
    if loaded is not None:
        return _described(loaded)
    payload = session.calls.request_sync("describe_server", {"server": name})
    return {**payload, "loaded": False} if isinstance(payload, dict) else {"name": name, "loaded": False}


def _described(server: "ServerModule") -> "dict[str, Any]":
    state = server.__mcp_ready__()
    more = {key: value for key, value in state.entry.items() if key not in ("name", "alias", "tools")}
    return {
        "name": state.name,
        "alias": state.alias,
        "description": None,
        "cwd": None,
        **more,
        "loaded": True,
        "tools": list(list_tools_sync(state.name)),
    }


@documented
def list_loaded_server_metadata() -> "tuple[dict[str, Any], ...]":
    return tuple(_described(server) for server in session.servers.loaded.values())


def _full(detail: str) -> bool:
    if detail not in ("summary", "full"):
        raise ValueError(f'detail must be "summary" or "full", not {detail!r}')
    return detail == "full"


def _local_docs(server: str, tool: str | None, full: bool) -> "Docs | None":
    """Docs of a loaded server, whose tools are known here; None for other servers."""
    try:
        module = session.servers.module(server)
    except NameError:
        return None
    docs = tool_docs.Docs()
    docs.not_started = []
    if tool is None:
        docs += [tool_docs.of_tool(one, full=full) for one in module.__mcp_ready__().offered()]
    else:
        docs.append(tool_docs.of_tool(module.__mcp_tool__(tool), full=full))
    return docs


def _docs_request(server: str, tool: str | None) -> "dict[str, Any]":
    return {"server": server, "detail": "full", **({} if tool is None else {"tool": tool})}


@documented
async def query_tool_docs(server: str, tool: str | None = None, detail: str = "summary") -> "Any":
    full = _full(detail)
    docs = _local_docs(server, tool, full)
    if docs is None:
        payload = await session.calls.request("query_tool_docs", _docs_request(server, tool))
        docs = tool_docs.from_host(payload, full=full, loaded=_is_loaded)
    return docs[0] if tool is not None and len(docs) == 1 else docs


@documented
def query_tool_docs_sync(server: str, tool: str | None = None, detail: str = "summary") -> "Docs":
    full = _full(detail)
    docs = _local_docs(server, tool, full)
    if docs is None:
        payload = session.calls.request_sync("query_tool_docs", _docs_request(server, tool))
        docs = tool_docs.from_host(payload, full=full, loaded=_is_loaded)
    return docs


def _search_request(query: str, limit: int) -> "dict[str, Any]":
    if not isinstance(query, str) or not query.strip():
        raise ValueError("search_tool_docs: query must be a text that is not empty")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= 20:
        raise ValueError(f"search_tool_docs: limit must be 1 to 20, not {limit!r}")
    return {"query": query, "limit": limit, "detail": "full"}


@documented
async def search_tool_docs(query: str, *, limit: int = 5, detail: str = "summary") -> "Docs":
    full, request = _full(detail), _search_request(query, limit)
    payload = await session.calls.request("search_tool_docs", request)
    return tool_docs.from_host(payload, full=full, loaded=_is_loaded)


@documented
def search_tool_docs_sync(query: str, *, limit: int = 5, detail: str = "summary") -> "Docs":
    full, request = _full(detail), _search_request(query, limit)
    payload = session.calls.request_sync("search_tool_docs", request)
    return tool_docs.from_host(payload, full=full, loaded=_is_loaded)


@documented
def save_memory(key: str, value: "Any", *, metadata: "dict[str, Any] | None" = None) -> str:
    return memory.save(key, value, metadata)


@documented
def load_memory(key: str, *, default: "Any" = None) -> "Any":
    return memory.read(key, default)


@documented
def update_memory(key: str, fn: "Callable[[Any], Any]") -> "Any":
    return memory.update(key, fn)


@documented
def delete_memory(key: str) -> bool:
    return memory.delete(key)


@documented
def list_memories() -> "list[dict[str, Any]]":
    return memory.listing()


@documented
def memory_exists(key: str) -> bool:
    return memory.exists(key)


@documented
def get_memory_info(key: str) -> "dict[str, Any] | None":
    return memory.info(key)


@documented
def save_tool(function: "Any", *more: "Any") -> str:
    return saving.save((function, *more))


@documented
def saved_tools() -> "list[dict[str, Any]]":
    return saving.listing()


@documented
def delete_tool(name: str) -> bool:
    return saving.delete(name)
