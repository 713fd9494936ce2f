"""A host with a store, for tests: memories, saved tools and project files, with answers like the
real host's."""

import base64
from dataclasses import dataclass, field
import json
import os
from pathlib import Path
from typing import Any

import pytest

from guest import Frame, Guest
from host import Fail, Host

# A guest in another root file system does not see the tests' folders.
here_only = pytest.mark.skipif("GUEST_PYTHON" in os.environ, reason="the guest does not see the folder")


@dataclass
class HostStore:
    """The host's store for what outlives a session."""

    host: Host
    projects: Path
    memories: dict[str, Frame] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)
    writes: int = 0

    def __post_init__(self) -> None:
        self.host.handlers.update(
            {
                "memory.load": lambda params: self.memories.get(params["key"].strip()),
                "memory.info": self.info,
                "memory.save": self.save,
                "memory.delete": lambda params: {"file": "k.json" if self.memories.pop(params["key"], None) else None},
                "memory.list": lambda _: {"memories": [*self.memories.values()], "set_aside": ["x.json.corrupt-1"]},
                "tools.save": self.save_tool,
                "tools.list": lambda params: {"tools": [{"name": name} for name in self.tools], "problems": []},
                "tools.delete": lambda params: {"deleted": self.tools.pop(params["name"], None) is not None},
            }
        )

    def info(self, params: Frame) -> Any:
        found = self.memories.get(params["key"].strip())
        return found and {name: value for name, value in found.items() if name != "value"}

    def save(self, params: Frame) -> Any:
        key = params["key"].strip()
        if not key:
            raise Fail("TypeError", "the key is empty", {"details": {"reason": "key"}})
        before = self.memories.get(key)
        if "expected" in params and params["expected"] != (before and before["version"]):
            details = {"reason": "conflict", "current": before}
            raise Fail("MCPError", "changed", {"details": {name: value for name, value in details.items() if value}})
        self.writes += 1
        self.memories[key] = {"key": key, "value": params["value"], "metadata": params.get("metadata", {})}
        self.memories[key].update(version=str(self.writes), provenance={"session": "s"})
        text = json.dumps(params["value"])
        return {"version": str(self.writes), "new": before is None, "file": "k.json", "text": text}

    def save_tool(self, params: Frame) -> Any:
        self.tools[params["name"]] = params["source"]
        return {"version": 1}

    def send_state(self, saved: dict[str, str] | None = None, own: str = "", **more: object) -> None:
        """Sends a `state` frame."""
        tools = {"saved": [[name, source] for name, source in (saved or {}).items()], "own": own}
        self.host.guest.send(type="state", tools=tools, **more)

    def announce_files(self, **files: object) -> None:
        """Announces files and sends them when the guest fetches them."""
        self.host.guest.send(type="state", more=True)
        self.host.on_fetch = lambda: self.host.guest.send(type="state", **files)

    def collect(self, paths: list[str], deleted: list[str] | None = None) -> dict[str, bytes | None]:
        """Asks the guest for files; returns their contents, None for those it cannot read."""
        self.host.guest.send(type="collect", id=7, paths=paths, deleted=deleted or [])
        found: dict[str, bytes | None] = {}
        while (frame := self.host.guest.next())["type"] == "project_file":
            if "error" in frame:
                found[frame["path"]] = None
                continue
            data = base64.b64decode(frame["base64"]) if "base64" in frame else frame["text"].encode()
            found[frame["path"]] = (found.get(frame["path"]) or b"") + data
        assert frame == {"type": "collected", "id": 7}
        return found


def store_at(directory: Path, monkeypatch: pytest.MonkeyPatch) -> HostStore:
    projects = directory / "projects"
    projects.mkdir()
    (directory / "workspace").mkdir()
    monkeypatch.setenv("MCP_GUEST_PROJECTS", str(projects))
    return HostStore(Host(Guest(directory / "workspace")), projects)
