"""Documentation of tools for people and models: docstrings, and docs that are plain dicts but print
compactly."""

from _mcp_guest.servers import schema as schemas
from _mcp_guest.servers.arguments import Parameters
from _mcp_guest.servers.naming import shown
from _mcp_guest.servers.results import is_wrapper
from _mcp_guest.servers.shapes import shape

__all__ = ["Doc", "Docs", "docstring", "from_host", "of_tool"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from _mcp_guest.servers.proxies import Tool

SHORT_CHARACTERS = 300
LINE_PARAMETERS = 8
NAME_WIDTH = 24
EXAMPLES = {
    "string": '"..."',
    "integer": "1",
    "number": "1.0",
    "boolean": "True",
    "array": "[...]",
    "object": "{...}",
    "null": "None",
}


def docstring(tool: "Tool") -> str:
    """The docstring of a loaded tool's function."""
    parts = [tool.description or f"Tool {shown(tool.wire)}."]
    details = parameter_lines(tool.parameters)
    if details:
        parts.append("\n".join(details))
    returned = returns(tool.output_schema, tool.wire)
    if returned:
        parts.append(returned)
    parts.append(f"Example: await {example(tool.called, tool.parameters)}")
    if tool.wire != tool.alias:
        parts.append(f"Its own name is {shown(tool.wire)}: {_by_name(tool.called, tool.wire)}")
    return "\n\n".join(parts)


def parameter_lines(parameters: Parameters) -> "list[str]":
    """One line per parameter: type, default, choices and description."""
    width = min(NAME_WIDTH, max((len(parameter.name) for parameter in parameters.all), default=0))
    lines = []
    for parameter in parameters.all:
        facts = [shape(parameter.document, parameter.schema) if parameter.is_deep else parameter.kind]
        if parameter.values is not None and parameter.kind != "null":
            facts = ["one of " + ", ".join(_limited(repr(value)) for value in parameter.values)]
        if parameter.required:
            facts.append("required")
        if "default" in parameter.schema:
            facts.append(f"default {parameter.default}")
        if parameter.wire != parameter.name:
            facts.append(f"sent as {shown(parameter.wire)}")
        about = parameter.schema.get("description", parameter.schema.get("title"))
        text = _limited(" ".join(about.split())) if isinstance(about, str) else ""
        lines.append(f"  {parameter.name:{width}}  {', '.join(facts)}{f'. {text}' if text else ''}")
    if parameters.open:
        lines.append("  Further arguments are passed on.")
    return lines


def returns(schema: object, tool: str) -> str:
    """The line about what a call returns; empty where the server does not say."""
    if not isinstance(schema, dict) or not schema:
        return ""
    document = schemas.Document(schema)
    inner: object = schema
    if is_wrapper(schema, tool):
        inner = schemas.collect(document, schema)[0].get("result", {})
    text = shape(document, inner)
    return "" if text == "any" else f"Returns {text}"


def example(called: str, parameters: Parameters) -> str:
    """A call with the required arguments."""
    given = []
    for parameter in parameters.all:
        if parameter.required:
            kind = parameter.kind.split(" or ")[0]
            value = repr(parameter.values[0]) if parameter.values else EXAMPLES.get(kind, "...")
            given.append(f"{parameter.name}={value}")
    return f"{called}({', '.join(given)})"


class Doc(dict[str, "Any"]):
    """A tool's doc: a dict `{server, serverAlias, tool, toolAlias, description?, inputSchema?,
    outputSchema?}` that prints as text."""

    __slots__ = ("full", "loaded", "parameters")
    full: bool
    loaded: bool
    parameters: Parameters

    def line(self) -> str:
        """The line in a list."""
        about = self.get("description")
        summary = _summary(about) if isinstance(about, str) else ""
        note = "" if self.loaded else f'   [not loaded: servers=["{shown(self["server"])}"]]'
        return self._head() + (f"  {summary}" if summary else "") + note

    def _head(self) -> str:
        required = [parameter.name for parameter in self.parameters.all if parameter.required]
        optional = [f"{parameter.name}=…" for parameter in self.parameters.all if not parameter.required]
        names = required + optional
        if len(names) > LINE_PARAMETERS:
            names = [*names[:LINE_PARAMETERS], "…"]
        server, tool = self["server"], self["tool"]
        called = f"{server}.{tool}"
        if (server, tool) != (self["serverAlias"], self["toolAlias"]):
            # What code must write; the original names follow.
            called = f"mcp_{self['serverAlias']}.{self['toolAlias']}"
        head = f"{called}({', '.join(names)})"
        return head if called[:4] != "mcp_" or called == f"{server}.{tool}" else f"{head} = {shown(f'{server}.{tool}')}"

    def __str__(self) -> str:
        if not self.full:
            return self.line()
        called = f"mcp_{self['serverAlias']}.{self['toolAlias']}"
        lines = [f"await {self.parameters.line(called)}"]
        if isinstance(self.get("description"), str):
            lines.append(self["description"].strip())
        lines += parameter_lines(self.parameters)
        returned = returns(self.get("outputSchema"), self["tool"])
        if returned:
            lines.append(returned)
        lines.append(f"Example: await {example(called, self.parameters)}")
        if self["tool"] != self["toolAlias"]:
            lines.append(f"Its own name is {shown(self['tool'])}: {_by_name(called, self['tool'])}")
        if not self.loaded:
            lines.append(f'Not loaded: call run_python with servers=["{shown(self["server"])}"]')
        return "\n".join(lines)

    __repr__ = __str__

    def __reduce__(self) -> "tuple[Callable[..., object], tuple[object, ...]]":
        return dict, (dict(self),)


class Docs(list[Doc]):
    """A list of docs that prints one line for each."""

    __slots__ = ("not_started",)
    not_started: "list[str]"

    def __str__(self) -> str:
        texts = [str(doc) for doc in self]
        text = ("\n\n" if any(getattr(doc, "full", False) for doc in self) else "\n").join(texts)
        if self.not_started:
            names = ", ".join(shown(name) for name in self.not_started[: SHORT_CHARACTERS // 10])
            text += f"{chr(10) if text else ''}not started yet, tools unknown: {names}"
        return text or "nothing found"

    __repr__ = __str__

    def __reduce__(self) -> "tuple[Callable[..., object], tuple[object, ...]]":
        return list, ([dict(doc) for doc in self],)


def of_tool(tool: "Tool", *, full: bool) -> Doc:
    """The doc of a loaded tool."""
    state = tool.server.__mcp_state__
    raw = {
        "server": state.name,
        "serverAlias": state.alias,
        "tool": tool.wire,
        "toolAlias": tool.alias,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
    }
    return _doc(raw, tool.parameters, full=full, loaded=True)


def from_host(payload: "Any", *, full: bool, loaded: "Callable[[str], bool]") -> Docs:
    """Docs that the host made. It sends them in full, so that a line can show the parameters."""
    raw = payload
    not_started: list[str] = []
    if isinstance(payload, dict):
        raw = payload.get("results", [payload] if "tool" in payload else [])
        names = payload.get("notStarted")
        not_started = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    docs = Docs()
    docs.not_started = not_started
    for one in raw if isinstance(raw, list) else []:
        if isinstance(one, dict) and isinstance(one.get("server"), str) and isinstance(one.get("tool"), str):
            schema = one.get("inputSchema", one.get("input_schema", {}))
            docs.append(_doc(one, Parameters(schema), full=full, loaded=loaded(one["server"])))
    return docs


def _doc(raw: "dict[str, Any]", parameters: Parameters, *, full: bool, loaded: bool) -> Doc:
    doc = Doc(
        server=raw["server"],
        serverAlias=str(raw.get("serverAlias", raw["server"])),
        tool=raw["tool"],
        toolAlias=str(raw.get("toolAlias", raw["tool"])),
    )
    about = raw.get("description")
    if isinstance(about, str) and about.strip():
        doc["description"] = about if full else _summary(about)
    if full:
        doc["inputSchema"] = raw.get("inputSchema", raw.get("input_schema", {}))
        output = raw.get("outputSchema", raw.get("output_schema"))
        if isinstance(output, dict):
            doc["outputSchema"] = output
    doc.full, doc.loaded, doc.parameters = full, loaded, parameters
    return doc


def _summary(text: str) -> str:
    """The first paragraph as one line."""
    return _limited(" ".join(text.strip().split("\n\n")[0].split()))


def _limited(text: str) -> str:
    return text if len(text) <= SHORT_CHARACTERS else text[:SHORT_CHARACTERS].rstrip() + "..."


def _by_name(called: str, wire: str) -> str:
    return f"{called.partition('.')[0]}.call({wire if len(wire) < SHORT_CHARACTERS else wire[:20]!r}, ...)"
