"""Values that outlive the session, kept on the host: each call is one request, and what it answers is on the disk."""

import posix

from _mcp_guest.api.errors import MCPError, brief
from _mcp_guest.lazy import load
from _mcp_guest.servers.rpc import calls

__all__ = ["delete", "exists", "info", "listing", "read", "save", "update"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Tries of an update; each that fails means that another one was made.
TRIES = 200
# Before the first ones there is no pause: the answer to a lost try brings what is needed for the next.
PATIENT_TRIES = 3
LONGEST_PAUSE = 0.05


def _key(function: str, key: object) -> str:
    if not isinstance(key, str):
        raise brief(TypeError(f"{function}: key must be a text, not {type(key).__name__}"))
    return key


def _ask(method: str, **params: object) -> "dict[str, Any] | None":
    try:
        answer = calls().request_sync(method, params)
    except MCPError as error:
        # Wrong use, as any function would say it.
        if isinstance(error.details, dict) and error.details.get("reason") == "key":
            raise brief(ValueError(str(error))) from None
        raise
    return answer if isinstance(answer, dict) else None


def _checked(function: str, key: object, value: object, metadata: object) -> "dict[str, object]":
    """The parameters of a request, or the reason why they cannot be kept and where in the value it lies."""
    params: dict[str, object] = {"key": _key(function, key), "value": value}
    if metadata is not None:
        if not isinstance(metadata, dict):
            raise brief(TypeError(f"{function}: metadata must be a dict, not {type(metadata).__name__}"))
        params["metadata"] = metadata
    wrong = load("_mcp_guest.servers.arguments").unsendable(params)
    if wrong:
        raise brief(TypeError(f"{function}: {wrong}"))
    return params


def save(key: str, value: "Any", metadata: "dict[str, Any] | None") -> str:
    params = _checked("save_memory", key, value, metadata)
    saved = _ask("memory.save", **params)
    _show(saved)
    return f"memory {key.strip()!r} is {'saved' if saved and saved.get('new') else 'saved anew'}"


def read(key: str, default: "Any") -> "Any":
    found = _ask("memory.load", key=_key("load_memory", key))
    return default if found is None else found.get("value")


def delete(key: str) -> bool:
    answer = _ask("memory.delete", key=_key("delete_memory", key))
    file = answer.get("file") if answer else None
    if isinstance(file, str):
        load("_mcp_guest.state.projects").hide(f"memory/{file}")
    return file is not None


def listing() -> "list[dict[str, Any]]":
    answer = _ask("memory.list") or {}
    aside = answer.get("set_aside") or []
    if aside:
        load("warnings").warn(f"memory files that could not be read were set aside: {', '.join(aside)}", stacklevel=3)
    return list(answer.get("memories") or [])


def exists(key: str) -> bool:
    return _ask("memory.info", key=_key("memory_exists", key)) is not None


def info(key: str) -> "dict[str, Any] | None":
    found = _ask("memory.info", key=_key("get_memory_info", key))
    return None if found is None else {name: item for name, item in found.items() if name != "version"}


def update(key: str, function: "Callable[[Any], Any]") -> "Any":
    """Reads, changes, and writes only if nobody has written since; else does it again with what is there now."""
    if not callable(function):
        raise brief(TypeError(f"update_memory: fn must be a function, not {type(function).__name__}"))
    found = _ask("memory.load", key=_key("update_memory", key))
    for number in range(TRIES):
        current = found.get("value") if found else None
        value = function(current)
        if value is None and _is_changed(key, current):
            value = current
        if hasattr(value, "__await__"):
            getattr(value, "close", int)()
            raise brief(TypeError("update_memory: fn must be an ordinary function, not an async one"))
        params = _checked("update_memory", key, value, None)
        try:
            saved = _ask("memory.save", expected=found.get("version") if found else None, **params)
        except MCPError as error:
            details = error.details if isinstance(error.details, dict) else {}
            if details.get("reason") != "conflict":
                raise
            if number >= PATIENT_TRIES:
                _pause(number - PATIENT_TRIES)
                found = _ask("memory.load", key=key)
            else:
                newer = details.get("current")
                found = newer if isinstance(newer, dict) else _ask("memory.load", key=key)
            continue
        _show(saved)
        return value
    raise MCPError(f"update_memory: {key!r} was changed by others {TRIES} times meanwhile; nothing was written")


def _is_changed(key: str, value: object) -> bool:
    """Whether a function that answers nothing, such as `lambda seen: seen.append(x)`, changed what it was given."""
    if not isinstance(value, (dict, list)):
        return False
    kept = _ask("memory.load", key=key)
    # What others wrote meanwhile is no matter: then nothing is written, and all is done again.
    return kept is None or kept.get("value") != value


def _pause(number: int) -> None:
    """Longer with each try, and never the same for two who compete."""
    span = min(LONGEST_PAUSE, 0.001 * 2 ** min(number, 10))
    part = int.from_bytes(posix.urandom(2), "big") / 0xFFFF
    load("time").sleep(span * (0.5 + part / 2))


def _show(saved: "dict[str, Any] | None") -> None:
    """The file as it is on the host, below `/projects`."""
    if saved and isinstance(saved.get("file"), str) and isinstance(saved.get("text"), str):
        load("_mcp_guest.state.projects").show(f"memory/{saved['file']}", saved["text"].encode())
