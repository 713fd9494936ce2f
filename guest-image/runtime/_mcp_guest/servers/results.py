"""Results of tools as ordinary Python values that still have the whole MCP result as `.raw`."""

from binascii import a2b_base64

from _mcp_guest.api.errors import ToolError
from _mcp_guest.frames import parse

__all__ = [
    "Blob",
    "DictResult",
    "ListResult",
    "ResourceLink",
    "TextResult",
    "contents",
    "is_wrapper",
    "messages",
    "pictures",
    "unwrap",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class DictResult(dict[str, "Any"]):
    """A dict; `.raw` is the whole MCP result. Copies and pickles are plain."""

    __slots__ = ("raw",)
    raw: object

    def __reduce__(self) -> "tuple[Callable[..., object], tuple[object, ...]]":
        return dict, (dict(self),)


class ListResult(list["Any"]):
    """A list; `.raw` is the whole MCP result. Copies and pickles are plain."""

    __slots__ = ("raw",)
    raw: object

    def __reduce__(self) -> "tuple[Callable[..., object], tuple[object, ...]]":
        return list, (list(self),)


class TextResult(str):
    """A string; `.raw` is the whole MCP result. Copies and pickles are plain."""

    __slots__ = ("raw",)
    raw: object

    def __reduce__(self) -> "tuple[Callable[..., object], tuple[object, ...]]":
        return str, (str(self),)


class Blob(bytes):
    """The bytes of an image, a sound or a file: `.mime`, `.uri` or None, `.data` as plain bytes,
    `.raw`."""

    mime: str
    uri: str | None
    raw: object

    @property
    def data(self) -> bytes:
        return bytes(self)

    def __repr__(self) -> str:
        return f"<{self.mime}, {len(self):,} bytes>"

    __str__ = __repr__

    def __reduce__(self) -> "tuple[Callable[..., object], tuple[object, ...]]":
        return _blob, (bytes(self), self.mime, self.uri, self.raw)


class ResourceLink:
    """A resource that a tool points at: `await mcp_x.read_resource(link.uri)` reads it."""

    def __init__(self, raw: "dict[str, Any]") -> None:
        self.raw = raw
        self.uri: str = str(raw.get("uri", ""))
        self.name: str = str(raw.get("name", ""))
        self.title, self.description = raw.get("title"), raw.get("description")
        self.mime, self.size = raw.get("mimeType"), raw.get("size")

    def __repr__(self) -> str:
        return f"<resource {self.name!r} at {self.uri}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResourceLink) and self.raw == other.raw


def is_wrapper(schema: object, tool: str) -> bool:
    """Whether a tool's output schema puts a value that is not an object into a field `result`, as
    FastMCP and the official Python SDK do.

    The SDK says so by the title alone, which it makes of the function's name: `addOutput`. A class
    of that form begins with a capital.
    """
    if not isinstance(schema, dict):
        return False
    if schema.get("x-fastmcp-wrap-result") is True:
        return True
    fields, title = schema.get("properties"), schema.get("title")
    if not isinstance(fields, dict) or list(fields) != ["result"] or schema.get("required") != ["result"]:
        return False
    function = title.removesuffix("Output") if isinstance(title, str) else title
    return isinstance(function, str) and function != title and (function == tool or not function[:1].isupper())


def unwrap(payload: "Any", server: str, tool: str, *, wrapped: bool) -> "Any":
    """The structured content if there is any, else the block or list of blocks. Raises the error
    that a tool reports.

    `wrapped` is what `is_wrapper` says of the tool.
    """
    if not isinstance(payload, dict):
        return payload
    blocks = payload.get("content")
    if isinstance(blocks, (str, dict)):
        # Some servers send a single block instead of a list.
        blocks = [{"type": "text", "text": blocks} if isinstance(blocks, str) else blocks]
    blocks = blocks if isinstance(blocks, list) else []
    structured = payload.get("structuredContent")
    if payload.get("isError") is True:
        raise ToolError.of(server, tool, _text(blocks), structured, payload)
    if structured is not None:
        is_wrapped = wrapped or _says_wrapped(payload.get("_meta"))
        if is_wrapped and isinstance(structured, dict) and len(structured) == 1 and "result" in structured:
            structured = structured["result"]
            # As in a text block: text that is JSON becomes its value.
            structured = _parsed(structured) if isinstance(structured, str) else structured
        return _carry(_with_media(structured), payload)
    found = [_block(block) for block in blocks]
    return _carry(found[0] if len(found) == 1 else found or None, payload)


def pictures(value: object) -> "list[Blob]":
    """The pictures that came with the structured content of a result."""
    raw = getattr(value, "raw", None)
    blocks = raw.get("content") if isinstance(raw, dict) else None
    if type(value) not in (DictResult, ListResult, TextResult) or not isinstance(blocks, list):
        return []
    found = [_block(block) for block in blocks if isinstance(block, dict) and block.get("type") == "image"]
    return [blob for blob in found if isinstance(blob, Blob)]


def _says_wrapped(meta: object) -> bool:
    """Whether FastMCP says with the result that it is wrapped."""
    about = meta.get("fastmcp") if isinstance(meta, dict) else None
    return isinstance(about, dict) and about.get("wrap_result") is True


def _with_media(value: "Any") -> "Any":
    """Structured content that is a picture or a sound, or a list with some, as blocks are: bytes
    instead of base64."""
    if isinstance(value, list):
        return [_with_media(item) if isinstance(item, dict) else item for item in value]
    if isinstance(value, dict) and value.get("type") in ("image", "audio") and isinstance(value.get("mimeType"), str):
        return _block(value)
    return value


def contents(payload: "Any") -> "Any":
    """The content of a resource: one value, or a list of several."""
    items = payload.get("contents") if isinstance(payload, dict) else None
    if not isinstance(items, list):
        return payload
    found = [_resource(item) for item in items]
    return _carry(found[0] if len(found) == 1 else found, payload)


def messages(payload: "Any") -> "Any":
    """The messages of a prompt: `[{"role", "content"}]`."""
    items = payload.get("messages") if isinstance(payload, dict) else None
    if not isinstance(items, list):
        return payload
    found = []
    for item in items:
        content = item.get("content") if isinstance(item, dict) else item
        blocks = content if isinstance(content, list) else [content]
        values = [_block(block, parsed=False) for block in blocks]
        role = item.get("role") if isinstance(item, dict) else None
        found.append({"role": role, "content": values[0] if len(values) == 1 else values})
    return _carry(found, payload)


def _carry(value: "Any", raw: object) -> "Any":
    kind = type(value)
    carrier: Any
    if kind is dict:
        carrier = DictResult(value)
    elif kind is list:
        carrier = ListResult(value)
    elif kind is str:
        carrier = TextResult(value)
    else:
        return value
    carrier.raw = raw
    return carrier


def _text(blocks: "list[Any]") -> str:
    return "\n".join(
        block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)
    )


def _block(block: "Any", *, parsed: bool = True) -> "Any":
    if not isinstance(block, dict):
        return block
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        return _parsed(block["text"]) if parsed else block["text"]
    if kind in ("image", "audio") and isinstance(block.get("data"), str):
        return _decoded(block["data"], block)
    if kind == "resource" and isinstance(block.get("resource"), dict):
        return _resource(block["resource"])
    if kind == "resource_link":
        return ResourceLink(block)
    return block


def _resource(resource: "Any") -> "Any":
    if isinstance(resource, dict):
        if isinstance(resource.get("text"), str):
            return resource["text"]
        if isinstance(resource.get("blob"), str):
            return _decoded(resource["blob"], resource)
    return resource


def _decoded(data: str, block: "dict[str, Any]") -> "Any":
    try:
        content = a2b_base64(data)
    except ValueError:
        return block  # It is not base64: user code gets it unchanged.
    mime, uri = block.get("mimeType"), block.get("uri")
    return _blob(
        content,
        mime if isinstance(mime, str) else "application/octet-stream",
        uri if isinstance(uri, str) else None,
        block,
    )


def _blob(content: bytes, mime: str, uri: str | None, raw: object) -> Blob:
    blob = Blob(content)
    blob.mime, blob.uri, blob.raw = mime, uri, raw
    return blob


def _parsed(text: str) -> object:
    """The value of JSON text, or the text: also for a number that would change, such as a hash like
    `12e4567`."""
    stripped = text.strip(" \t\r\n")
    first = stripped[:1]
    if first in '{["' or stripped in ("true", "false", "null"):
        try:
            return parse(stripped)
        except Exception:
            return text
    if first == "-" or ("0" <= first <= "9"):
        try:
            value = parse(stripped)
        except Exception:
            return text
        return value if repr(value) == stripped else text
    return text
