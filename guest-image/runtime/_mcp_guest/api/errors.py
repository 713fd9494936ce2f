"""What can go wrong with something that was asked of the host. Public as `mcp.runtime.MCPError` and `ToolError`."""

from _mcp_guest.lazy import load

__all__ = ["Denied", "MCPError", "Mistyped", "TimedOut", "ToolError", "Unnamed", "brief", "from_host"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MESSAGE_CHARACTERS = 4000


class MCPError(RuntimeError):
    """Something asked of the host was refused or failed."""

    # Tracebacks of these are as short as can be: the message says it all.
    _mcp_brief = True
    server: str | None = None
    tool: str | None = None
    details: object = None

    def __reduce__(self) -> "tuple[Callable[..., BaseException], tuple[object, ...]]":
        return _again, (type(self).__name__, str(self), self.__dict__)


class ToolError(MCPError):
    """A tool ran and said no: `server`, `tool`, its `text`, `structured` content where there is any, all in `raw`."""

    text: str = ""
    structured: object = None
    raw: object = None

    @classmethod
    def of(cls, server: str, tool: str, text: str, structured: object = None, raw: object = None) -> "ToolError":
        """With a message made of the parts; a long text is cut in the message only."""
        shown = text.strip()
        if not shown and structured:
            shown = structured if isinstance(structured, str) else load("json").dumps(structured, ensure_ascii=False)
        shown = shown or "failed and did not say why"
        if len(shown) > MESSAGE_CHARACTERS:
            shown = f"{shown[:MESSAGE_CHARACTERS]}... ({len(shown) - MESSAGE_CHARACTERS:,} more characters in .text)"
        error = cls(f"{server}.{tool}: {shown}")
        error.server, error.tool, error.text, error.structured, error.raw = server, tool, text, structured, raw
        return error


class Denied(MCPError, PermissionError):
    """Not allowed; caught by `except PermissionError` as well."""


class TimedOut(MCPError, TimeoutError):
    """Took too long; caught by `except TimeoutError` as well."""


class Unnamed(MCPError, NameError):
    """A server or tool that is not there; caught by `except NameError` as well."""


class Mistyped(MCPError, TypeError):
    """The request itself is wrong; caught by `except TypeError` as well."""


_KINDS: dict[str, type[MCPError]] = {"MCPError": MCPError, "ToolError": ToolError}
_KINDS.update(PermissionError=Denied, TimeoutError=TimedOut, NameError=Unnamed, TypeError=Mistyped)
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
    """Marks an exception whose message says it all."""
    error._mcp_brief = True  # type: ignore[attr-defined]
    return error


def _again(kind: str, message: str, attributes: "dict[str, object]") -> BaseException:
    error = _KINDS.get(kind, MCPError)(message)
    error.__dict__.update(attributes)
    return error
