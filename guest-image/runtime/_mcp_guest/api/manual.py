"""The table of the helpers in `mcp.runtime`: docstrings and the manual are made from it.

To add a helper, add a row here. The bridge embeds the manual: `make manual` writes its copy, a test
compares them.
"""

__all__ = ["HELPERS", "LEFT_OUT", "documented", "installed", "text"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Function = TypeVar("Function", bound=Callable[..., Any])

# Name: how it is called, what it does, and whether the manual lists it; help(mcp.runtime) lists the
# others too. The row of NAME also documents `NAME_sync`.
HELPERS = {
    "search_tool_docs": (
        "await search_tool_docs(query, *, limit=5)",
        "Finds tools in all servers.",
        True,
    ),
    "query_tool_docs": (
        'await query_tool_docs(server, tool=None, detail="summary")',
        'The tools of a server, or one; detail="full" adds parameters.',
        True,
    ),
    "discovered_servers": ("discovered_servers(detailed=False)", "Every known server.", True),
    "list_servers": ("await list_servers()", "Names of the loaded servers.", False),
    "list_tools": ("await list_tools(server)", "The tools that the server offers now.", False),
    "describe_server": ("describe_server(name)", "Everything known about a server.", False),
    "list_loaded_server_metadata": ("list_loaded_server_metadata()", "The same for all loaded servers.", False),
    "call_tool": (
        "await call_tool(server, tool, arguments=None)",
        "Calls a tool by name, without checking its arguments.",
        False,
    ),
    "show": ("show(*values)", "Pictures, figures, tables, SVG, HTML.", True),
    "save_memory": (
        "save_memory(key, value, *, metadata=None)",
        "Stores JSON for later sessions; load_memory(key) returns it.",
        True,
    ),
    "load_memory": ("load_memory(key, *, default=None)", "The stored value, or the default.", False),
    "update_memory": (
        "update_memory(key, fn)",
        "Stores fn(value), or the value that fn changed in place, and returns it; safe with other sessions. "
        "The value is None if there is none.",
        False,
    ),
    "delete_memory": ("delete_memory(key)", "Deletes a memory; returns whether it existed.", False),
    "list_memories": ("list_memories()", "All memories without their values, by key.", False),
    "memory_exists": ("memory_exists(key)", "Whether the memory exists.", False),
    "get_memory_info": ("get_memory_info(key)", "Metadata, times and origin of a memory, or None.", False),
    "save_tool": (
        "save_tool(function)",
        "Saves a function or class for later sessions.",
        True,
    ),
    "saved_tools": ("saved_tools()", "All saved tools: name, signature, time and origin.", False),
    "delete_tool": ("delete_tool(name)", "Deletes a saved tool; returns whether it existed.", False),
    "capability_summary": ("capability_summary()", "The manual of this sandbox as text.", False),
}
# The manual names at most this many installed packages.
MOST_PACKAGES = 100
# Public names without a row: classes have docstrings of their own.
LEFT_OUT = ("MCPError", "ToolError")

# Clients may read this before any run: nothing here depends on the guest or on settings.
_MANUAL = """\
# run_python

A Python sandbox: the standard library and the packages listed as installed; no network, no shell, no input().

- Variables, imports and files stay; `await` works at top level; a bare last expression is shown.
- Files: /workspace (working directory); /projects lasts for later sessions; /workspace/out goes to the user.
- Output of the last run: `runtime.last_output[60:120]`, `.grep("error")`, `.tail(50)`, `.text`, `.stderr`; \
cell 7: `runtime.outputs[7]`.
- `yield_after=10` returns after 10 s and the code runs on; `run="last"` reads more, or ends it with `cancel=true`.
- Servers named in `servers` are modules: `await mcp_github.create_issue(title="x")`; in parallel with \
asyncio.gather. A tool that fails raises ToolError.

Helpers; more in help(runtime):
"""


def documented(function: "Function") -> "Function":
    """Sets the docstring of a public function of `mcp.runtime` from its row."""
    name = function.__name__
    call, sentence, _ = HELPERS[name.removesuffix("_sync")]
    if name.endswith("_sync"):
        call = call.removeprefix("await ").replace("(", "_sync(", 1)
    function.__doc__ = f"{sentence}\n\n{call}"
    return function


def text() -> str:
    """The manual, as the bridge embeds it."""
    rows = (row for row in HELPERS.values() if row[2])
    return _MANUAL + "".join(f"- `{call}`: {sentence}\n" for call, sentence, _ in rows)


def installed() -> str:
    """The installed packages, as the end of the manual; the bridge knows them from the image's
    lock."""
    from posix import listdir
    import sys

    try:
        entries = listdir(f"{sys.prefix}/lib/python{sys.version[:4]}/site-packages")
    except OSError:
        return ""
    described = (entry.removesuffix(".dist-info").rpartition("-") for entry in entries if entry.endswith(".dist-info"))
    packages = sorted(f"{name.replace('_', '-')} {version}" for name, _, version in described)
    return f"\nInstalled: {', '.join(packages[:MOST_PACKAGES])}.\n" if packages else ""
