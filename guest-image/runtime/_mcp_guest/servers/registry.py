"""The session's servers: installed from `execute` frames, found by all their names, or reported
with a reason."""

from _frozen_importlib import ModuleSpec
import builtins

from _mcp_guest.api.errors import MCPError, ServerNameError
from _mcp_guest.servers.naming import aliases, hint, listed, plain_alias, shown
from _mcp_guest.servers.proxies import ServerModule
from _mcp_guest.session import session

__all__ = ["Finder", "ServerRegistry", "find_variable"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType
    from typing import Any, NoReturn

    from _mcp_guest.session import Session

PREFIX = "mcp.servers."
# The name of the table of all servers, which no server may take.
TABLE = "mcp_servers"


class ServerKeyError(KeyError):
    """`mcp_servers[name]` failed; shown as a KeyError whose message says what to do."""

    _mcp_brief = True

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


ServerKeyError.__name__ = ServerKeyError.__qualname__ = "KeyError"
ServerKeyError.__module__ = "builtins"


class NotLoaded:
    """Placeholder `mcp_jira` for a server that is known but not loaded, or did not start: any use
    of it says so."""

    __slots__ = ("_name", "_variable")

    def __init__(self, name: str, variable: str) -> None:
        self._name, self._variable = name, variable

    def _refuse(self) -> "NoReturn":
        raise session.servers.error(self._name, lambda message: ServerNameError(f"{self._variable}: {message}"))

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


class ServerRegistry:
    """The servers of one session."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        # In the order in which they were loaded.
        self.loaded: dict[str, ServerModule] = {}
        self.by_alias: dict[str, ServerModule] = {}
        # Servers that are not loaded: by name, with the reason where one failed; and names by
        # alias.
        self.known: dict[str, str] = {}
        self.known_by_alias: dict[str, str] = {}
        # The list that `known` was made from, and whether there was a reason in it.
        self._names: list[Any] | None = None
        self._has_failures = False
        # What the placeholders were made from, and their variables.
        self._placeholders_for = self.known_by_alias
        self._placeholders: set[str] = set()

    def look_up(self, name: str) -> ServerModule:
        """By alias, for `mcp_servers[name]` where `name` is not a loaded server."""
        found = self.by_alias.get(name)
        if found is None:
            raise self.error(name, ServerKeyError)
        return found

    def all_names(self) -> "list[str]":
        """Names of all servers, loaded or not."""
        self._update_known()
        return sorted({*self.loaded, *self.known})

    def module(self, name: str) -> ServerModule:
        """The loaded server with this name or alias."""
        found = self.loaded.get(name) or self.by_alias.get(name)
        if found is None:
            error = self.error(name, ServerNameError)
            if isinstance(error, MCPError):
                error.server = error.server or name
            raise error
        return found

    def explain_missing(self, name: str) -> str:
        """Why a server is not loaded, and what to do about it."""
        name = self._full_name(name)
        reason = self.known.get(name)
        if reason is None:
            names = self.all_names()
            return f'no server "{shown(name)}"; known: {listed(names) or "none"}{hint(name, names)}'
        if not reason:
            return f'server "{shown(name)}" is known but not loaded; call run_python with servers=["{shown(name)}"]'
        return reason if name in reason else f'server "{shown(name)}" cannot be used: {reason}'

    def error(self, name: str, kind: "Callable[[str], BaseException]") -> BaseException:
        """The exception for a server that is not loaded: MCPError if it failed to start, else
        `kind`."""
        full = self._full_name(name)
        if not self.known.get(full):
            return kind(self.explain_missing(name))
        error = MCPError(self.explain_missing(name))
        error.server = full
        return error

    def explain(self, error: BaseException) -> None:
        """Gives a NameError about an `mcp_...` name the reason instead of a suggestion."""
        name = getattr(error, "name", None)
        if type(error) is NameError and isinstance(name, str) and name.startswith("mcp_"):
            error.args = (f"{name}: {self.explain_missing(name[4:])}",)
            error.name = None

    def _full_name(self, name: str) -> str:
        self._update_known()
        return name if name in self.known else self.known_by_alias.get(name, name)

    def install(self, namespace: "dict[str, Any]", frame: "dict[str, object]") -> None:
        """Applies an `execute` frame: servers that are new, changed or failed. The names of the
        others are in `session.known_servers`."""
        before = len(self.loaded)
        for entry in _entries(frame.get("servers")):
            self._install_one(namespace, entry)
        failed = _entries(frame.get("failed"))
        if failed or len(self.loaded) > before:
            self._names = None
        self._update_known(failed)
        self._update_placeholders()
        namespace["LOADED_MCP_SERVERS"] = tuple(self.loaded)

    def _install_one(self, namespace: "dict[str, Any]", entry: "dict[str, Any]") -> None:
        name, alias = entry["name"], entry.get("alias")
        server = self.loaded.get(name)
        if server is None:
            if not isinstance(alias, str) or not alias.isidentifier() or alias in self.by_alias:
                alias = plain = plain_alias(name, "server")
                number = 2
                while alias in self.by_alias:
                    alias, number = f"{plain}_{number}", number + 1
            server = ServerModule(name, alias)
            self.loaded[name] = self.by_alias[alias] = server
            self.session.server_table[name] = server
            variable = f"mcp_{alias}"
            for space in (namespace, *self.session.tool_namespaces):
                space[variable if variable != TABLE else f"{TABLE}_"] = server
        server.__mcp_update__(entry)

    def _update_known(self, failed: "Sequence[dict[str, Any]]" = ()) -> None:
        """Updates which servers are not loaded, and why those that were tried failed. A signal may
        interrupt it."""
        names = self.session.known_servers
        if names is self._names:
            return
        if failed or self._has_failures or names != self._names:
            found = {name: "" for name in names if isinstance(name, str)}
            found.update((entry["name"], str(entry.get("message") or "it did not come up")) for entry in failed)
            self.known = {name: reason for name, reason in found.items() if name not in self.loaded}
            made = aliases([*self.loaded, *self.known], "server")
            self.known_by_alias = {made[name]: name for name in self.known}
            self._has_failures = bool(failed)
        self._names = names

    def _update_placeholders(self) -> None:
        """Makes the placeholders for servers that are not loaded."""
        if self._placeholders_for is self.known_by_alias:
            return
        for variable in self._placeholders:
            if isinstance(builtins.__dict__.get(variable), NotLoaded):
                delattr(builtins, variable)
        self._placeholders = set()
        for alias, name in self.known_by_alias.items():
            variable = f"mcp_{alias}"
            if not hasattr(builtins, variable) and variable != TABLE:
                setattr(builtins, variable, NotLoaded(name, variable))
                self._placeholders.add(variable)
        self._placeholders_for = self.known_by_alias


def _entries(found: object) -> "list[dict[str, Any]]":
    entries = found if isinstance(found, list) else []
    return [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("name"), str)]


class Finder:
    """Makes `from mcp.servers.github import create_issue` work, or explains why it does not."""

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> ModuleSpec | None:
        if not name.startswith(PREFIX) or "." in name[len(PREFIX) :]:
            return None
        alias = name[len(PREFIX) :]
        if alias not in session.servers.by_alias:
            raise session.servers.error(alias, lambda message: ImportError(message, name=name))
        loader: Any = self
        return ModuleSpec(name, loader, origin="MCP server")

    def create_module(self, spec: ModuleSpec) -> "ModuleType":
        return session.servers.by_alias[spec.name[len(PREFIX) :]]

    def exec_module(self, module: "ModuleType") -> None:
        """A server module has no code to run."""


def find_variable(name: str) -> ModuleSpec | None:
    """The server of a variable, such as `mcp_github`: it can be imported too. None for a package of
    that name; raises for a server that is not loaded."""
    servers = session.servers
    alias = name.removeprefix("mcp_")
    if name == f"{TABLE}_":
        alias = alias.removesuffix("_")
    if alias not in servers.by_alias or name == TABLE:
        servers.all_names()
        if alias in servers.known or alias in servers.known_by_alias:
            raise servers.error(alias, lambda message: ImportError(message, name=name))
        return None
    loader: Any = _Loader(servers.by_alias[alias])
    return ModuleSpec(name, loader, origin="MCP server")


class _Loader:
    """Imports a server under another name."""

    def __init__(self, server: ServerModule) -> None:
        self.server = server

    def create_module(self, spec: ModuleSpec) -> ServerModule:
        return self.server

    def exec_module(self, module: "ModuleType") -> None:
        """A server module has no code to run."""
