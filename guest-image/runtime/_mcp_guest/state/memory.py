"""Values that outlive the session: each call is a request to the host, which answers once it is on
disk."""

import posix

from _mcp_guest.api.errors import MCPError, brief
from _mcp_guest.lazy import lazy
from _mcp_guest.session import session

__all__ = ["delete", "exists", "info", "listing", "read", "save", "update"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    import time
    from typing import Any
    import warnings

    from _mcp_guest.servers import arguments
else:
    time = lazy("time")
    warnings = lazy("warnings")
    arguments = lazy("_mcp_guest.servers.arguments")

# Attempts of an update; each failed one means that somebody else's update succeeded.
ATTEMPTS = 200
# The first attempts follow each other at once: the response to a conflict has what the next one
# needs.
IMMEDIATE_ATTEMPTS = 3
LONGEST_PAUSE_SECONDS = 0.05


def _key(function: str, key: object) -> str:
    if not isinstance(key, str):
        raise brief(TypeError(f"{function}: key must be a text, not {type(key).__name__}"))
    return key


def _request(method: str, **params: object) -> "dict[str, Any] | None":
    try:
        answer = session.calls.request_sync(method, params)
    except MCPError as error:
        # The key is invalid: raise what any function would.
        if isinstance(error.details, dict) and error.details.get("reason") == "key":
            raise brief(ValueError(str(error))) from None
        raise
    return answer if isinstance(answer, dict) else None


def _checked(function: str, key: object, value: object, metadata: object) -> "dict[str, object]":
    """The parameters of a request; raises a TypeError that says what in them cannot be stored."""
    params: dict[str, object] = {"key": _key(function, key), "value": value}
    if metadata is not None:
        if not isinstance(metadata, dict):
            raise brief(TypeError(f"{function}: metadata must be a dict, not {type(metadata).__name__}"))
        params["metadata"] = metadata
    wrong = arguments.unsendable(params)
    if wrong:
        raise brief(TypeError(f"{function}: {wrong}"))
    return params


def save(key: str, value: "Any", metadata: "dict[str, Any] | None") -> str:
    params = _checked("save_memory", key, value, metadata)
    saved = _request("memory.save", **params)
    _show_view(saved)
    return f"memory {key.strip()!r} is {'saved' if saved and saved.get('new') else 'updated'}"


def read(key: str, default: "Any") -> "Any":
    found = _request("memory.load", key=_key("load_memory", key))
    return default if found is None else found.get("value")


def delete(key: str) -> bool:
    answer = _request("memory.delete", key=_key("delete_memory", key))
    file = answer.get("file") if answer else None
    if isinstance(file, str):
        session.projects.hide_view(f"memory/{file}")
    return file is not None


def listing() -> "list[dict[str, Any]]":
    answer = _request("memory.list") or {}
    aside = answer.get("set_aside") or []
    if aside:
        warnings.warn(f"memory files that could not be read were set aside: {', '.join(aside)}", stacklevel=3)
    return list(answer.get("memories") or [])


def exists(key: str) -> bool:
    return _request("memory.info", key=_key("memory_exists", key)) is not None


def info(key: str) -> "dict[str, Any] | None":
    found = _request("memory.info", key=_key("get_memory_info", key))
    return None if found is None else {name: item for name, item in found.items() if name != "version"}


def update(key: str, function: "Callable[[Any], Any]") -> "Any":
    """Reads, changes, and writes if nobody else has written since; otherwise starts again with the
    new value."""
    if not callable(function):
        raise brief(TypeError(f"update_memory: fn must be a function, not {type(function).__name__}"))
    found = _request("memory.load", key=_key("update_memory", key))
    for number in range(ATTEMPTS):
        current = found.get("value") if found else None
        value = function(current)
        if value is None and _is_changed(key, current):
            value = current
        if hasattr(value, "__await__"):
            getattr(value, "close", int)()
            raise brief(TypeError("update_memory: fn must be an ordinary function, not an async one"))
        params = _checked("update_memory", key, value, None)
        try:
            saved = _request("memory.save", expected=found.get("version") if found else None, **params)
        except MCPError as error:
            details = error.details if isinstance(error.details, dict) else {}
            if details.get("reason") != "conflict":
                raise
            if number >= IMMEDIATE_ATTEMPTS:
                _pause(number - IMMEDIATE_ATTEMPTS)
                found = _request("memory.load", key=key)
            else:
                newer = details.get("current")
                found = newer if isinstance(newer, dict) else _request("memory.load", key=key)
            continue
        _show_view(saved)
        return value
    raise MCPError(f"update_memory: {key!r} was changed by others {ATTEMPTS} times meanwhile; nothing was written")


def _is_changed(key: str, value: object) -> bool:
    """Whether a function that returns None, such as `lambda seen: seen.append(x)`, changed its
    argument."""
    if not isinstance(value, (dict, list)):
        return False
    stored = _request("memory.load", key=key)
    # If somebody else has written in the meantime, the save fails and the update starts again.
    return stored is None or stored.get("value") != value


def _pause(number: int) -> None:
    """Waits longer with each attempt, and for a random time, so that competing sessions differ."""
    span = min(LONGEST_PAUSE_SECONDS, 0.001 * 2 ** min(number, 10))
    chance = int.from_bytes(posix.urandom(2), "big") / 0xFFFF
    time.sleep(span * (0.5 + chance / 2))


def _show_view(saved: "dict[str, Any] | None") -> None:
    """Writes the memory's file below `/projects`, as the host has it."""
    if saved and isinstance(saved.get("file"), str) and isinstance(saved.get("text"), str):
        session.projects.show_view(f"memory/{saved['file']}", saved["text"].encode())
