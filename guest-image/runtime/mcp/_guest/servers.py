"""The servers of this session: installed from `execute` frames, found under all their names, missed with a reason."""

from _frozen_importlib import ModuleSpec
import builtins

from mcp._guest.environment import table
from mcp._guest.errors import Unnamed
from mcp._guest.naming import aliases, hint, listed, plain_alias, shown
from mcp._guest.proxies import ServerModule

__all__ = ["Finder", "explain", "install", "known", "look_up", "missing", "module", "servers"]

TYPE_CHECKING = False
if TYPE_CHECKING:
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
    """Stands for `mcp_jira` while that server is known but not loaded: any use of it says so."""

    __slots__ = ("_name", "_spoken")

    def __init__(self, name: str, spoken: str) -> None:
        self._name, self._spoken = name, spoken

    def _refuse(self) -> "NoReturn":
        raise Unnamed(f"{self._spoken}: {missing(self._name)}")

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
        self.known: dict[str, dict[str, Any]] = {}
        self.known_by_alias: dict[str, str] = {}
        self.placeholders: set[str] = set()


_state = _State()


def servers() -> "dict[str, ServerModule]":
    """The loaded ones, in the order in which they came."""
    return _state.loaded


def look_up(name: str) -> ServerModule:
    """For `mcp_servers[name]`, where the name is not that of a loaded server: by its alias."""
    found = _state.by_alias.get(name)
    if found is None:
        raise UnknownServer(missing(name))
    return found


def known() -> "list[str]":
    """Names of all servers, loaded or not."""
    return sorted({*_state.loaded, *_state.known})


def module(name: str) -> ServerModule:
    """The loaded server of this name or alias."""
    found = _state.loaded.get(name) or _state.by_alias.get(name)
    if found is None:
        error = Unnamed(missing(name))
        error.server = name
        raise error
    return found


def missing(name: str) -> str:
    """Why a server is not here, and what to do about it."""
    name = _state.known_by_alias.get(name, name) if name not in _state.known else name
    entry = _state.known.get(name)
    if entry is not None:
        reason = entry.get("reason", entry.get("error"))
        if isinstance(reason, str) and reason:
            return reason if name in reason else f'server "{shown(name)}" cannot be used: {reason}'
        return f'server "{shown(name)}" is known but not loaded; call run_python with servers=["{shown(name)}"]'
    names = known()
    return f'no server "{shown(name)}"; known: {listed(names) or "none"}{hint(name, names)}'


def install(namespace: "dict[str, Any]", entries: object, known_names: object) -> None:
    """Takes the `servers` and `known` of an `execute` frame: new and changed ones, and those that could be loaded."""
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("name"), str):
            _install_one(namespace, entry)
    if isinstance(known_names, list):
        _learn(known_names)
    namespace["LOADED_MCP_SERVERS"] = tuple(_state.loaded)


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
        namespace[spoken if spoken != TABLE else f"{TABLE}_"] = server
    server.__mcp_update__(entry)


def _learn(names: "list[Any]") -> None:
    """The servers that are not loaded, as names or as objects with more to say."""
    entries = [{"name": entry} if isinstance(entry, str) else entry for entry in names]
    found = [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("name"), str)]
    _state.known = {entry["name"]: entry for entry in found if entry["name"] not in _state.loaded}
    made = aliases([*_state.loaded, *_state.known], "server")
    for name, entry in _state.known.items():
        if isinstance(entry.get("alias"), str) and entry["alias"].isidentifier():
            made[name] = entry["alias"]
    _state.known_by_alias = {made[name]: name for name in _state.known}
    for spoken in _state.placeholders:
        if isinstance(builtins.__dict__.get(spoken), NotLoaded):
            delattr(builtins, spoken)
    _state.placeholders = set()
    for alias, name in _state.known_by_alias.items():
        spoken = f"mcp_{alias}"
        if not hasattr(builtins, spoken) and spoken != TABLE:
            setattr(builtins, spoken, NotLoaded(name, spoken))
            _state.placeholders.add(spoken)


class Finder:
    """Makes `from mcp.servers.github import create_issue` work, or say why it does not."""

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> ModuleSpec | None:
        if not name.startswith(PREFIX) or "." in name[len(PREFIX) :]:
            return None
        alias = name[len(PREFIX) :]
        if alias not in _state.by_alias:
            raise ImportError(missing(alias), name=name)
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
