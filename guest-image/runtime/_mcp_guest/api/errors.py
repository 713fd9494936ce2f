"""Exceptions for requests to the host. Public as `mcp.runtime.MCPError` and `ToolError`."""

from _mcp_guest.lazy import lazy

__all__ = [
    "MAIN_PROCESS_ONLY",
    "MCPError",
    "RequestDeniedError",
    "RequestTimeoutError",
    "RequestTypeError",
    "ServerNameError",
    "ToolError",
    "brief",
    "from_host",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    import json
else:
    json = lazy("json")

MESSAGE_CHARACTERS = 4000
MAIN_PROCESS_ONLY = (
    "tools can be used in the sandbox's main process only, not in a child process; threads and asyncio work"
)


class MCPError(RuntimeError):
    """A request to the host was refused or failed."""

    # The message is enough: tracebacks show one more line only.
    _mcp_brief = True
    server: str | None = None
    tool: str | None = None
    details: object = None

    def __reduce__(self) -> "tuple[Callable[..., BaseException], tuple[object, ...]]":
        return _rebuild, (type(self).__name__, str(self), self.__dict__)


class ToolError(MCPError):
    """A tool reported an error: `server`, `tool`, its `text`, `structured` content if any, and the
    result in `raw`."""

    text: str = ""
    structured: object = None
    raw: object = None

    @classmethod
    def of(cls, server: str, tool: str, text: str, structured: object = None, raw: object = None) -> "ToolError":
        """An error with a message made of the parts. A long text is cut in the message only."""
        shown = text.strip()
        if not shown and structured:
            shown = structured if isinstance(structured, str) else json.dumps(structured, ensure_ascii=False)
        shown = shown or "failed and did not say why"
        if len(shown) > MESSAGE_CHARACTERS:
            shown = f"{shown[:MESSAGE_CHARACTERS]}... ({len(shown) - MESSAGE_CHARACTERS:,} more characters in .text)"
        error = cls(f"{server}.{tool}: {shown}")
        error.server, error.tool, error.text, error.structured, error.raw = server, tool, text, structured, raw
        return error


class RequestDeniedError(MCPError, PermissionError):
    """The request is not allowed. Shown as, and caught by, PermissionError."""


class RequestTimeoutError(MCPError, TimeoutError):
    """The request took too long. Shown as, and caught by, TimeoutError."""


class ServerNameError(MCPError, NameError):
    """The server or tool does not exist. Shown as, and caught by, NameError."""


class RequestTypeError(MCPError, TypeError):
    """The request itself is wrong. Shown as, and caught by, TypeError."""


_KINDS: dict[str, type[MCPError]] = {"MCPError": MCPError, "ToolError": ToolError}
_KINDS.update(
    PermissionError=RequestDeniedError,
    TimeoutError=RequestTimeoutError,
    NameError=ServerNameError,
    TypeError=RequestTypeError,
)
for _name, _kind in _KINDS.items():
    _kind.__name__ = _kind.__qualname__ = _name
    _kind.__module__ = "mcp.runtime"


def from_host(error: object) -> MCPError:
    """The exception for the `error` of a response."""
    if not isinstance(error, dict):
        return MCPError(f"the host gave no reason: {str(error)[:MESSAGE_CHARACTERS]}")
    message = error.get("message")
    kind = _KINDS.get(str(error.get("type")), MCPError)
    made = kind(message if isinstance(message, str) and message else "the host gave no reason")
    for name in ("server", "tool"):
        if isinstance(error.get(name), str):
            setattr(made, name, error[name])
    made.details = error.get("details")
    if isinstance(made, ToolError):
        made.text, made.structured = str(message or ""), made.details
    return made


def brief(error: BaseException) -> BaseException:
    """Marks an exception whose message is enough: its traceback shows one more line only."""
    error.__dict__["_mcp_brief"] = True
    return error


def _rebuild(kind: str, message: str, attributes: "dict[str, object]") -> BaseException:
    error = _KINDS.get(kind, MCPError)(message)
    error.__dict__.update(attributes)
    return error
