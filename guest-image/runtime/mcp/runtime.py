"""Helpers for code that runs in the sandbox: the servers that are there, their tools and docs, and calls by name."""

from _mcp_guest.api.errors import MCPError, ToolError
from _mcp_guest.api.manual import documented, installed, text

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

    from _mcp_guest.servers.docs import Docs


@documented
def capability_summary() -> str:
    return text() + installed()


@documented
def show(*values: object) -> None:
    _load("display.display").show(*values)


def __getattr__(name: str) -> "Any":
    if name == "last_output":
        return _load("api.outputs").last()
    if name == "outputs":
        return _load("api.outputs").outputs()
    raise AttributeError(f"module 'mcp.runtime' has no attribute {name!r}", name=name)


def _load(name: str) -> "Any":
    from _mcp_guest.lazy import load

    return load(f"_mcp_guest.{name}")


def _is_loaded(server: str) -> bool:
    return server in _load("servers.registry").servers()


def _call(server: str, tool: str, arguments: "dict[str, Any] | None") -> "tuple[dict[str, Any], dict[str, Any]]":
    """Parameters of the request, and what is needed to unwrap the answer."""
    if arguments is not None and not isinstance(arguments, dict):
        raise TypeError(f"call_tool: arguments must be a dict or None, not {type(arguments).__name__}")
    state = _load("servers.registry").module(server).__mcp_known__()
    if state.failure:
        raise MCPError(state.failure)
    known = state.find(str(tool))
    wire = known.wire if known is not None else str(tool)
    params = {"server": state.name, "tool": wire, "arguments": dict(arguments or {})}
    return params, {"server": state.name, "tool": wire, "wrapped": known is not None and known.wrapped}


@documented
async def call_tool(server: str, tool: str, arguments: "dict[str, Any] | None" = None) -> "Any":
    params, told = _call(server, tool, arguments)
    return _load("servers.results").unwrap(await _load("servers.rpc").calls().request("call_tool", params), **told)


@documented
def call_tool_sync(server: str, tool: str, arguments: "dict[str, Any] | None" = None) -> "Any":
    params, told = _call(server, tool, arguments)
    return _load("servers.results").unwrap(_load("servers.rpc").calls().request_sync("call_tool", params), **told)


@documented
async def list_tools(server: str) -> "list[dict[str, Any]]":
    name = _load("servers.registry").module(server).__mcp_state__.name
    payload = await _load("servers.rpc").calls().request("list_tools", {"server": name})
    found = payload.get("tools") if isinstance(payload, dict) else payload
    tools = [tool for tool in found if isinstance(tool, dict)] if isinstance(found, list) else []
    names = _load("servers.naming").aliases([str(tool.get("name", "")) for tool in tools], "tool")
    return [_listed(tool, names[str(tool.get("name", ""))]) for tool in tools]


@documented
def list_tools_sync(server: str) -> "tuple[dict[str, Any], ...]":
    state = _load("servers.registry").module(server).__mcp_known__()
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
    return list_servers_sync()  # type: ignore[no-any-return]


@documented
def list_servers_sync() -> "tuple[str, ...]":
    return tuple(_load("servers.registry").servers())


@documented
def discovered_servers(detailed: bool = False) -> "tuple[Any, ...]":
    payload = _load("servers.rpc").calls().request_sync("discovered_servers", {"detailed": bool(detailed)})
    found = payload.get("servers") if isinstance(payload, dict) else payload
    entries = [{"name": entry} if isinstance(entry, str) else entry for entry in found or ()]
    entries = [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("name"), str)]
    if not detailed:
        return tuple(entry["name"] for entry in entries)
    return tuple({"description": None, **entry, "loaded": _is_loaded(entry["name"])} for entry in entries)


@documented
def describe_server(name: str) -> "dict[str, Any]":
    servers = _load("servers.registry")
    known = servers.servers().get(name) or next(
        (server for server in servers.servers().values() if server.__mcp_state__.alias == name), None
    )
    if known is not None:
        return _described(known)
    payload = _load("servers.rpc").calls().request_sync("describe_server", {"server": name})
    return {**payload, "loaded": False} if isinstance(payload, dict) else {"name": name, "loaded": False}


def _described(server: "Any") -> "dict[str, Any]":
    state = server.__mcp_known__()
    told = {key: value for key, value in state.entry.items() if key not in ("name", "alias", "tools")}
    return {
        "name": state.name,
        "alias": state.alias,
        "description": None,
        "cwd": None,
        **told,
        "loaded": True,
        "tools": list(list_tools_sync(state.name)),
    }


@documented
def list_loaded_server_metadata() -> "tuple[dict[str, Any], ...]":
    return tuple(_described(server) for server in _load("servers.registry").servers().values())


def _full(detail: str) -> bool:
    if detail not in ("summary", "full"):
        raise ValueError(f'detail must be "summary" or "full", not {detail!r}')
    return detail == "full"


def _local_docs(server: str, tool: str | None, full: bool) -> "Docs | None":
    """Docs of a loaded server: its tools are here already."""
    servers, docs = _load("servers.registry"), _load("servers.docs")
    try:
        module = servers.module(server)
    except NameError:
        return None
    made: Docs = docs.Docs()
    made.not_started = []
    if tool is None:
        made += [docs.of_tool(one, full=full) for one in module.__mcp_known__().offered()]
    else:
        made.append(docs.of_tool(module.__mcp_tool__(tool), full=full))
    return made


def _docs_request(server: str, tool: str | None) -> "dict[str, Any]":
    return {"server": server, "detail": "full", **({} if tool is None else {"tool": tool})}


@documented
async def query_tool_docs(server: str, tool: str | None = None, detail: str = "summary") -> "Any":
    full = _full(detail)
    docs = _local_docs(server, tool, full)
    if docs is None:
        payload = await _load("servers.rpc").calls().request("query_tool_docs", _docs_request(server, tool))
        docs = _load("servers.docs").from_host(payload, full=full, loaded=_is_loaded)
    return docs[0] if tool is not None and len(docs) == 1 else docs


@documented
def query_tool_docs_sync(server: str, tool: str | None = None, detail: str = "summary") -> "Docs":
    full = _full(detail)
    docs = _local_docs(server, tool, full)
    if docs is None:
        payload = _load("servers.rpc").calls().request_sync("query_tool_docs", _docs_request(server, tool))
        docs = _load("servers.docs").from_host(payload, full=full, loaded=_is_loaded)
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
    payload = await _load("servers.rpc").calls().request("search_tool_docs", request)
    docs: Docs = _load("servers.docs").from_host(payload, full=full, loaded=_is_loaded)
    return docs


@documented
def search_tool_docs_sync(query: str, *, limit: int = 5, detail: str = "summary") -> "Docs":
    full, request = _full(detail), _search_request(query, limit)
    payload = _load("servers.rpc").calls().request_sync("search_tool_docs", request)
    docs: Docs = _load("servers.docs").from_host(payload, full=full, loaded=_is_loaded)
    return docs


@documented
def save_memory(key: str, value: "Any", *, metadata: "dict[str, Any] | None" = None) -> str:
    return _load("state.memory").save(key, value, metadata)  # type: ignore[no-any-return]


@documented
def load_memory(key: str, *, default: "Any" = None) -> "Any":
    return _load("state.memory").read(key, default)


@documented
def update_memory(key: str, fn: "Callable[[Any], Any]") -> "Any":
    return _load("state.memory").update(key, fn)


@documented
def delete_memory(key: str) -> bool:
    return _load("state.memory").delete(key)  # type: ignore[no-any-return]


@documented
def list_memories() -> "list[dict[str, Any]]":
    return _load("state.memory").listing()  # type: ignore[no-any-return]


@documented
def memory_exists(key: str) -> bool:
    return _load("state.memory").exists(key)  # type: ignore[no-any-return]


@documented
def get_memory_info(key: str) -> "dict[str, Any] | None":
    return _load("state.memory").info(key)  # type: ignore[no-any-return]


@documented
def save_tool(function: "Any", *more: "Any") -> str:
    return _load("state.saving").save((function, *more))  # type: ignore[no-any-return]


@documented
def saved_tools() -> "list[dict[str, Any]]":
    return _load("state.saving").listing()  # type: ignore[no-any-return]


@documented
def delete_tool(name: str) -> bool:
    return _load("state.saving").delete(name)  # type: ignore[no-any-return]
