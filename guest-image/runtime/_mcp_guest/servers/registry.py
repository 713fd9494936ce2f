"""The servers of this session: installed from `execute` frames, found under all their names, missed with a reason."""

from _frozen_importlib import ModuleSpec
import builtins

from _mcp_guest.worker.environment import kept, spaces, table
from _mcp_guest.api.errors import MCPError, Unnamed
from _mcp_guest.servers.naming import aliases, hint, listed, plain_alias, shown
from _mcp_guest.servers.proxies import ServerModule

__all__ = ["Finder", "absent", "explain", "install", "known", "look_up", "missing", "module", "servers"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, NoReturn

PREFIX = "mcp.servers."
# The name of the table of all servers, which no server may take.
TABLE = "mcp_servers"


class UnknownServer(KeyError):
    """No such server here; the message says what to do."""

    _mcp_brief = True

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


UnknownServer.__name__ = UnknownServer.__qualname__ = "KeyError"
UnknownServer.__module__ = "builtins"


class NotLoaded:
    """Stands for `mcp_jira` while that server is known but not loaded, or did not come up: any use of it says so."""

    __slots__ = ("_name", "_spoken")

    def __init__(self, name: str, spoken: str) -> None:
        self._name, self._spoken = name, spoken

    def _refuse(self) -> "NoReturn":
        raise absent(self._name, lambda message: Unnamed(f"{self._spoken}: {message}"))

    def __getattr__(self, name: str) -> "Any":
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name, obj=None)
        self._refuse()

    def __call__(self, *args: object, **kwargs: object) -> "Any":
        self._refuse()

    def __getitem__(self, key: object) -> "Any":
        self._refuse()

    def __bool__(self) -> bool:
        self._refuse()

    def __repr__(self) -> str:
        self._refuse()

    def __dir__(self) -> "list[str]":
        return []


class _State:
    """One session's servers."""

    def __init__(self) -> None:
        self.loaded: dict[str, ServerModule] = {}
        self.by_alias: dict[str, ServerModule] = {}
        # The names that were learned last, and whether there was a reason among them.
        self.names: list[Any] | None = None
        self.failed = False
        # Those that are not loaded; with the reason where it was tried.
        self.known: dict[str, str] = {}
        self.known_by_alias: dict[str, str] = {}
        # What placeholders were made of, and their names.
        self.shown = self.known_by_alias
        self.placeholders: set[str] = set()


_state = _State()


def servers() -> "dict[str, ServerModule]":
    """The loaded ones, in the order in which they came."""
    return _state.loaded


def look_up(name: str) -> ServerModule:
    """For `mcp_servers[name]`, where the name is not that of a loaded server: by its alias."""
    found = _state.by_alias.get(name)
    if found is None:
        raise absent(name, UnknownServer)
    return found


def known() -> "list[str]":
    """Names of all servers, loaded or not."""
    _learn()
    return sorted({*_state.loaded, *_state.known})


def module(name: str) -> ServerModule:
    """The loaded server of this name or alias."""
    found = _state.loaded.get(name) or _state.by_alias.get(name)
    if found is None:
        error = absent(name, Unnamed)
        if isinstance(error, MCPError):
            error.server = error.server or name
        raise error
    return found


def missing(name: str) -> str:
    """Why a server is not here, and what to do about it."""
    name = _full(name)
    reason = _state.known.get(name)
    if reason is None:
        names = known()
        return f'no server "{shown(name)}"; known: {listed(names) or "none"}{hint(name, names)}'
    if not reason:
        return f'server "{shown(name)}" is known but not loaded; call run_python with servers=["{shown(name)}"]'
    return reason if name in reason else f'server "{shown(name)}" cannot be used: {reason}'


def absent(name: str, kind: "Callable[[str], BaseException]") -> BaseException:
    """What to raise for a server that is not here: an MCPError where it did not come up, else one of this kind."""
    full = _full(name)
    if not _state.known.get(full):
        return kind(missing(name))
    error = MCPError(missing(name))
    error.server = full
    return error


def _full(name: str) -> str:
    _learn()
    return name if name in _state.known else _state.known_by_alias.get(name, name)


def install(namespace: "dict[str, Any]", frame: "dict[str, object]") -> None:
    """Takes what an `execute` frame says of servers: new and changed ones, and those that did not come up. The names of
    those that could be loaded are in `kept`."""
    before = len(_state.loaded)
    for entry in _entries(frame.get("servers")):
        _install_one(namespace, entry)
    failed = _entries(frame.get("failed"))
    if failed or len(_state.loaded) > before:
        _state.names = None
    _learn(failed)
    _show()
    namespace["LOADED_MCP_SERVERS"] = tuple(_state.loaded)


def _entries(found: object) -> "list[dict[str, Any]]":
    entries = found if isinstance(found, list) else []
    return [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("name"), str)]


def _install_one(namespace: "dict[str, Any]", entry: "dict[str, Any]") -> None:
    name, alias = entry["name"], entry.get("alias")
    server = _state.loaded.get(name)
    if server is None:
        if not isinstance(alias, str) or not alias.isidentifier() or alias in _state.by_alias:
            alias = plain = plain_alias(name, "server")
            number = 2
            while alias in _state.by_alias:
                alias, number = f"{plain}_{number}", number + 1
        server = ServerModule(name, alias)
        _state.loaded[name] = _state.by_alias[alias] = server
        table[name] = server
        spoken = f"mcp_{alias}"
        for space in (namespace, *spaces):
            space[spoken if spoken != TABLE else f"{TABLE}_"] = server
    server.__mcp_update__(entry)


def _learn(failed: "list[dict[str, Any]] | tuple[()]" = ()) -> None:
    """Takes up which servers are not loaded, and why those are not that were tried. A signal may cut it off."""
    names = kept.known
    if names is _state.names:
        return
    if failed or _state.failed or names != _state.names:
        found = {name: "" for name in names if isinstance(name, str)}
        found.update((entry["name"], str(entry.get("message") or "it did not come up")) for entry in failed)
        _state.known = {name: reason for name, reason in found.items() if name not in _state.loaded}
        made = aliases([*_state.loaded, *_state.known], "server")
        _state.known_by_alias = {made[name]: name for name in _state.known}
        _state.failed = bool(failed)
    _state.names = names


def _show() -> None:
    """Gives code that names them something to be told by."""
    if _state.shown is _state.known_by_alias:
        return
    for spoken in _state.placeholders:
        if isinstance(builtins.__dict__.get(spoken), NotLoaded):
            delattr(builtins, spoken)
    _state.placeholders = set()
    for alias, name in _state.known_by_alias.items():
        spoken = f"mcp_{alias}"
        if not hasattr(builtins, spoken) and spoken != TABLE:
            setattr(builtins, spoken, NotLoaded(name, spoken))
            _state.placeholders.add(spoken)
    _state.shown = _state.known_by_alias


class Finder:
    """Makes `from mcp.servers.github import create_issue` work, or say why it does not."""

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> ModuleSpec | None:
        if not name.startswith(PREFIX) or "." in name[len(PREFIX) :]:
            return None
        alias = name[len(PREFIX) :]
        if alias not in _state.by_alias:
            raise absent(alias, lambda message: ImportError(message, name=name))
        return ModuleSpec(name, self, origin="MCP server")  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> "ModuleType":
        return _state.by_alias[spec.name[len(PREFIX) :]]

    def exec_module(self, module: "ModuleType") -> None:
        """There is nothing to run."""


def explain(error: BaseException) -> None:
    """Gives a NameError for an `mcp_...` name the reason instead of a suggestion."""
    name = getattr(error, "name", None)
    if type(error) is NameError and isinstance(name, str) and name.startswith("mcp_"):
        error.args = (f"{name}: {missing(name[4:])}",)
        error.name = None
