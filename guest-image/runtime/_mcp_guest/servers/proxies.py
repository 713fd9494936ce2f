"""MCP servers as modules and their tools as functions, made from data and only when they are
used."""

import sys

from _mcp_guest.api.errors import MCPError, ServerNameError
from _mcp_guest.lazy import lazy
from _mcp_guest.servers.naming import aliases, hint, listed, shown
from _mcp_guest.session import session

__all__ = ["ServerModule", "Tool"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    import importlib
    import inspect
    from types import ModuleType
    from typing import Any

    from _mcp_guest.servers import arguments, docs, results
    from _mcp_guest.servers.arguments import Parameters
else:
    ModuleType = type(sys)
    importlib = lazy("importlib")
    inspect = lazy("inspect")
    arguments = lazy("_mcp_guest.servers.arguments")
    docs = lazy("_mcp_guest.servers.docs")
    results = lazy("_mcp_guest.servers.results")

HELPERS = ("call", "call_raw", "prompt", "prompts", "read_resource", "resources")
MORE = """\
Also: await {name}.call("a tool's own name", ...), {name}.TOOL.raw(...) for the whole MCP result, {name}.TOOL.sync(...)
without await, await {name}.resources(), .read_resource(uri), .prompts(), .prompt(name, ...)."""


class Tool:
    """One tool of a server. The object stays the same while the server is loaded, even if the tool
    is removed."""

    __slots__ = ("_function", "_parameters", "alias", "definition", "offered", "server", "wire")

    def __init__(self, server: "ServerModule", wire: str) -> None:
        self.server, self.wire, self.alias = server, wire, ""
        self.definition: dict[str, Any] = {}
        self.offered = False
        self._parameters: Parameters | None = None
        self._function: Callable[..., Any] | None = None

    def define(self, definition: "dict[str, Any]", alias: str) -> None:
        """Applies a definition; the function follows. The next call redoes one that a signal cut
        off."""
        if not self.offered or definition != self.definition or alias != self.alias:
            self.offered = False
            self.definition, self.alias, self._parameters = definition, alias, None
            if self._function is not None:
                self._describe(self._function)
            self.offered = True

    @property
    def input_schema(self) -> "Any":
        return self.definition.get("input_schema", self.definition.get("inputSchema", {}))

    @property
    def description(self) -> str:
        for key in ("description", "title"):
            text = self.definition.get(key)
            if isinstance(text, str) and text.strip():
                return text.strip()
        return ""

    @property
    def parameters(self) -> "Parameters":
        if self._parameters is None:
            self._parameters = arguments.Parameters(self.input_schema)
        return self._parameters

    @property
    def called(self) -> str:
        """How code calls it: `mcp_github.create_issue`."""
        return f"mcp_{self.server.__mcp_state__.alias}.{self.alias}"

    @property
    def output_schema(self) -> "Any":
        return self.definition.get("output_schema", self.definition.get("outputSchema"))

    @property
    def wrapped(self) -> bool:
        return results.is_wrapper(self.output_schema, self.wire)

    @property
    def function(self) -> "Callable[..., Any]":
        """The function that user code sees."""
        if self._function is None:
            self._function = self._make()
        return self._function

    def _make(self) -> "Callable[..., Any]":
        def call(*args: object, **kwargs: object) -> "Coroutine[Any, Any, Any]":
            return self._named(self._call(self._bound(args, kwargs)))

        def raw(*args: object, **kwargs: object) -> "Coroutine[Any, Any, Any]":
            """The whole MCP result as the server sent it, errors included: nothing is unwrapped or
            raised."""
            return self._named(self._call_raw(self._bound(args, kwargs)))

        def sync(*args: object, **kwargs: object) -> "Any":
            """The same without `await`: blocks this thread."""
            payload = session.calls.request_sync("call_tool", self._params(self._bound(args, kwargs)))
            return self._unwrapped(payload)

        for function, name in ((call, ""), (raw, ".raw"), (sync, ".sync")):
            function.__module__ = self.server.__name__
            function.__name__ = self.alias if not name else name[1:]
            function.__qualname__ = self.alias + name
        call.__dict__.update(raw=raw, sync=sync, server=self.server.__mcp_state__.name, tool=self.wire)
        # Python 3.12 has this; tests may run on an older one.
        mark = getattr(inspect, "markcoroutinefunction", None)
        if mark is not None:
            mark(call)
            mark(raw)
        self._describe(call)
        return call

    def _describe(self, call: "Callable[..., Any]") -> None:
        signature = self.parameters.signature()
        annotations = {
            parameter.name: parameter.annotation
            for parameter in signature.parameters.values()
            if parameter.annotation is not parameter.empty
        }
        call.__doc__ = docs.docstring(self)
        for function in (call, call.__dict__["raw"], call.__dict__["sync"]):
            function.__dict__["__signature__"] = signature
            function.__annotations__ = dict(annotations)

    def _bound(self, args: "tuple[object, ...]", kwargs: "dict[str, object]") -> "dict[str, Any]":
        state = self.server.__mcp_ready__()
        if not self.offered:
            error = MCPError(f"{shown(state.name)}.{shown(self.wire)}: its server no longer offers this tool")
            error.server, error.tool = state.name, self.wire
            raise error
        return self.parameters.bind(self.called, self.alias, args, kwargs)

    def _named(self, coroutine: "Any") -> "Coroutine[Any, Any, Any]":
        """Names the coroutine, so that a warning about a forgotten `await` names the tool."""
        coroutine.__qualname__ = self.called
        result: Coroutine[Any, Any, Any] = coroutine
        return result

    def _params(self, arguments: "dict[str, Any]") -> "dict[str, object]":
        return {"server": self.server.__mcp_state__.name, "tool": self.wire, "arguments": arguments}

    def _unwrapped(self, payload: object) -> "Any":
        return results.unwrap(payload, self.server.__mcp_state__.name, self.wire, wrapped=self.wrapped)

    async def _call(self, arguments: "dict[str, Any]") -> "Any":
        return self._unwrapped(await session.calls.request("call_tool", self._params(arguments)))

    async def _call_raw(self, arguments: "dict[str, Any]") -> "Any":
        return await session.calls.request("call_tool", self._params(arguments))


class ServerState:
    """What is known of a server; separate from the module, whose attributes are the tools."""

    __slots__ = ("alias", "built", "by_alias", "entry", "failure", "name", "tools")

    def __init__(self, name: str, alias: str) -> None:
        self.name, self.alias = name, alias
        self.entry: dict[str, Any] = {}
        self.failure = ""
        self.built = False
        self.tools: dict[str, Tool] = {}
        self.by_alias: dict[str, Tool] = {}

    def offered(self) -> "list[Tool]":
        return [tool for tool in self.tools.values() if tool.offered]

    def find(self, name: str) -> Tool | None:
        """The tool with this name, or with this alias."""
        tool = self.tools.get(name) or self.by_alias.get(name)
        # Removed tools are still found by their last alias.
        return tool or next((tool for tool in self.tools.values() if tool.alias == name), None)


class ServerModule(ModuleType):
    """A server: `mcp_github`, and also `mcp.servers.github`. Its tools are made on first use."""

    __slots__ = ("__mcp_state__",)

    def __init__(self, name: str, alias: str) -> None:
        super().__init__(f"mcp.servers.{alias}")
        self.__mcp_state__ = ServerState(name, alias)

    def __mcp_update__(self, entry: "dict[str, Any]") -> None:
        """Applies the host's description. Functions that user code has follow the new
        definitions."""
        state = self.__mcp_state__
        error = entry.get("error")
        state.entry, state.failure = entry, error if isinstance(error, str) else ""
        description = entry.get("description")
        about = description if isinstance(description, str) and description else f'MCP server "{state.name}".'
        self.__doc__ = f"{about}\n\n{MORE.format(name=f'mcp_{state.alias}')}"
        # Of hundreds of loaded servers only a few may be used.
        if state.built or any(_shadows_helper(offer) for offer in _offers(entry)):
            state.built = False
            self.__mcp_build__()

    def __mcp_build__(self) -> ServerState:
        """Makes the tools. A user's signal handler may raise anywhere in here: the next use starts
        over."""
        state = self.__mcp_state__
        by_name = {tool["name"]: tool for tool in _offers(state.entry)}
        names = _tool_aliases(by_name)
        for alias in state.by_alias:
            self.__dict__.pop(alias, None)
        for wire, tool in state.tools.items():
            if wire not in by_name:
                tool.offered = False
        for wire, definition in by_name.items():
            tool = state.tools.setdefault(wire, Tool(self, wire))
            tool.define(definition, names[wire])
        state.by_alias = {names[wire]: state.tools[wire] for wire in by_name}
        self.__dict__["__all__"] = [alias for alias in state.by_alias if not _is_special(alias)]
        for alias in HELPERS:
            # Methods of the class take precedence over `__getattr__`; a tool with such a name must
            # replace them.
            if alias in state.by_alias:
                self.__dict__[alias] = state.by_alias[alias].function
        state.built = True
        return state

    def __mcp_ready__(self) -> ServerState:
        """The state, after the tools have been made."""
        state = self.__mcp_state__
        return state if state.built else self.__mcp_build__()

    def __getattr__(self, name: str) -> "Any":
        if _is_special(name):
            if name == "__all__" and not self.__mcp_state__.built:
                self.__mcp_build__()
                return self.__dict__[name]
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name)
        state = self.__mcp_ready__()
        if state.failure:
            raise _failed(state)
        tool = state.find(name)
        if tool is None:
            raise AttributeError(_no_tool(state, name), obj=self)
        if not tool.offered:
            raise AttributeError(f'server "{shown(state.name)}" no longer offers {shown(tool.wire)}', obj=self)
        function = tool.function
        if name in state.by_alias:
            self.__dict__[name] = function
        return function

    def __dir__(self) -> "list[str]":
        special = [name for name in self.__dict__ if _is_special(name)]
        return sorted({*self.__mcp_ready__().by_alias, *HELPERS, *special})

    def __repr__(self) -> str:
        state = self.__mcp_ready__()
        if state.failure:
            return f"<mcp_{state.alias}: {state.failure}>"
        names = listed(tool.alias for tool in state.offered())
        return f"<mcp_{state.alias}: {len(state.offered())} tools: {names}>"

    def __reduce__(self) -> "tuple[Callable[..., Any], tuple[object, ...]]":
        return importlib.import_module, (self.__name__,)

    def call(self, tool: str, /, *args: object, **kwargs: object) -> "Coroutine[Any, Any, Any]":
        """Calls a tool by name, also one that is not an identifier: `await mcp_x.call("a.b",
        n=1)`."""
        result: Coroutine[Any, Any, Any] = self.__mcp_tool__(tool).function(*args, **kwargs)
        return result

    def call_raw(self, tool: str, /, *args: object, **kwargs: object) -> "Coroutine[Any, Any, Any]":
        """The same, for the whole MCP result: nothing is unwrapped, and tool errors are not
        raised."""
        function: Any = self.__mcp_tool__(tool).function
        result: Coroutine[Any, Any, Any] = function.raw(*args, **kwargs)
        return result

    async def resources(self) -> "list[Any]":
        """The server's resources: dicts with `uri`, `name` and other fields of the server."""
        return _items(await self.__mcp_request__("list_resources"), "resources")

    async def read_resource(self, uri: str) -> "Any":
        """The content of a resource: text, or bytes with `.mime`; a list where there are
        several."""
        return results.contents(await self.__mcp_request__("read_resource", uri=str(uri)))

    async def prompts(self) -> "list[Any]":
        """The server's prompts: dicts with `name`, `description` and `arguments`."""
        return _items(await self.__mcp_request__("list_prompts"), "prompts")

    async def prompt(self, name: str, /, **arguments: object) -> "Any":
        """The messages of a prompt: a list of dicts with `role` and `content`."""
        texts = {key: value if isinstance(value, str) else str(value) for key, value in arguments.items()}
        payload = await self.__mcp_request__("get_prompt", name=name, arguments=texts)
        return results.messages(payload)

    async def __mcp_request__(self, method: str, **params: object) -> "Any":
        return await session.calls.request(method, {"server": self.__mcp_state__.name, **params})

    def __mcp_tool__(self, name: str) -> Tool:
        state = self.__mcp_ready__()
        if state.failure:
            raise _failed(state)
        tool = state.find(name)
        if tool is None:
            error = ServerNameError(_no_tool(state, name))
            error.server = state.name
            raise error
        return tool


def _tool_aliases(names: "dict[str, Any]") -> "dict[str, str]":
    """The host's aliases, where they are valid and distinct; `call` is taken."""
    made = aliases(names, "tool")
    given = {wire: tool.get("alias") for wire, tool in names.items()}
    good = [alias for alias in given.values() if isinstance(alias, str) and alias.isidentifier()]
    if len(good) == len(names) == len(set(good)):
        made = {wire: str(alias) for wire, alias in given.items()}
    for wire, alias in made.items():
        if alias == "call":
            alias = "call_"
            while alias in made.values():
                alias += "_"
            made[wire] = alias
    return made


def _offers(entry: "dict[str, Any]") -> "list[dict[str, Any]]":
    offers = entry.get("tools")
    if not isinstance(offers, list):
        return []
    return [tool for tool in offers if isinstance(tool, dict) and isinstance(tool.get("name"), str)]


def _shadows_helper(offer: "dict[str, Any]") -> bool:
    return offer.get("alias") in HELPERS or offer["name"].lower() in HELPERS


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _items(payload: "Any", key: str) -> "list[Any]":
    items = payload.get(key) if isinstance(payload, dict) else payload
    return items if isinstance(items, list) else []


def _no_tool(state: ServerState, name: str) -> str:
    names = [tool.alias for tool in state.offered()]
    return (
        f'server "{shown(state.name)}" has no tool {shown(name)}{hint(name, names)}; it has: {listed(names) or "none"}'
    )


def _failed(state: ServerState) -> MCPError:
    error = MCPError(state.failure)
    error.server = state.name
    return error
