"""The one object, `session`, that owns what lasts for the whole session."""

from _mcp_guest.api.errors import MAIN_PROCESS_ONLY, MCPError
from _mcp_guest.lazy import lazy
from _mcp_guest.state.files import OutputFolder

__all__ = ["IMAGE_BYTES", "DisplayBudget", "Servers", "Session", "session"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from _mcp_guest.init.record import Index
    from _mcp_guest.servers import registry
    from _mcp_guest.servers.proxies import ServerModule
    from _mcp_guest.servers.rpc import Calls
    from _mcp_guest.state import projects, saved_tools
else:
    registry = lazy("_mcp_guest.servers.registry")
    projects = lazy("_mcp_guest.state.projects")
    saved_tools = lazy("_mcp_guest.state.saved_tools")

# The largest picture that models accept, less the growth of base64.
IMAGE_BYTES = 3_500_000
RUN_BYTES = 10_000_000
RUN_DISPLAYS = 16
# A document may take this part of the answer's text, and with its escapes it must fit into a frame.
TEXT_PART, TEXT_BYTES = 4, 2_000_000


class Servers(dict[str, "ServerModule"]):
    """The loaded servers by name, as user code sees them: `mcp_servers["github"]`."""

    def __missing__(self, name: object) -> "ServerModule":
        return session.servers.look_up(str(name))


class DisplayBudget:
    """How many pictures and documents the current run may still show, and how large they may be."""

    def __init__(self) -> None:
        self.run = 0
        self.text_bytes = 0
        self.count = self.size = self.saved = 0

    def begin(self, run: int, text_bytes: int) -> None:
        """Starts anew for a run whose answer may have `text_bytes` of text."""
        self.run, self.text_bytes = run, text_bytes
        self.count = self.size = self.saved = 0

    def take(self, size: int, *, is_text: bool) -> bool:
        """Counts one more display if it fits; returns whether it does."""
        limit = min(TEXT_BYTES, self.text_bytes // TEXT_PART) if is_text else IMAGE_BYTES
        if size > limit or self.count >= RUN_DISPLAYS or self.size + size > RUN_BYTES:
            return False
        self.count += 1
        self.size += size
        return True


class Session:
    """Made once per worker process; its larger parts are made, and imported, on first use."""

    def __init__(self) -> None:
        # None until the worker has its channel.
        self.active_calls: Calls | None = None
        # Output of earlier runs; None where the guest does not keep any.
        self.output_index: Index | None = None
        # The number of the current cell.
        self.cell = 0
        self.display_budget = DisplayBudget()
        self.output_folder = OutputFolder()
        self.server_table = Servers()
        # Names of servers that could be loaded, as the latest `execute` frame listed them.
        self.known_servers: list[Any] = []
        # Whether `state` frames have come that are not applied yet.
        self.has_new_state = False
        # Whether code must be searched for names of saved tools, and whether one of these mentions
        # a server.
        self.has_saved_tools = self.tools_mention_servers = False
        # Namespaces of loaded tools, which get the servers too.
        self.tool_namespaces: list[dict[str, Any]] = []
        # Made on first use.
        self._parts: dict[str, Any] = {}

    @property
    def calls(self) -> "Calls":
        """Requests to the host; raises `MCPError` outside the main process."""
        if self.active_calls is None:
            raise MCPError(MAIN_PROCESS_ONLY)
        return self.active_calls

    # The reader thread and the main thread may both be the first to use a part; `setdefault` keeps
    # one of the two, without a lock that a signal handler could find locked.

    @property
    def servers(self) -> "registry.ServerRegistry":
        found: registry.ServerRegistry | None = self._parts.get("servers")
        return found or self._parts.setdefault("servers", registry.ServerRegistry(self))

    @property
    def projects(self) -> "projects.ProjectFiles":
        found: projects.ProjectFiles | None = self._parts.get("projects")
        return found or self._parts.setdefault("projects", projects.ProjectFiles(self))

    @property
    def saved_tools(self) -> "saved_tools.ToolLibrary":
        found: saved_tools.ToolLibrary | None = self._parts.get("saved_tools")
        return found or self._parts.setdefault("saved_tools", saved_tools.ToolLibrary(self))

    def after_fork(self) -> None:
        """Runs in a forked child, which has no reader thread and must not use the channel."""
        if self.output_index is not None:
            self.output_index.close()
            self.output_index = None
        if "projects" in self._parts:
            self.projects.after_fork()


session = Session()
