"""Helpers for code that runs in the sandbox."""

__all__ = ["MCPError", "capability_summary"]

_SUMMARY = """\
Python {version} in a sandbox: no network, no shell, nothing of the host's files.

- Variables, imports and functions stay from one call to the next, until the session is reset or lost.
- Print what you want to see. The value of a bare last expression is shown as well (end it with `;` to hide it).
- `await` works at top level. Tasks that you start go on during later awaits.
- A run that reaches its time limit gets a KeyboardInterrupt; code that reacts to it keeps the session.
- Nobody can answer input(); put the values into the code.
- Files: /workspace (128 MB, the working directory), /tmp (64 MB), /projects (64 MB). They last as long as the session.
  Programs and shared libraries cannot be run from there.
- The standard library is here; packages cannot be installed.
"""


class MCPError(RuntimeError):
    """Something asked of the host was refused or failed."""


def capability_summary() -> str:
    """The manual of this sandbox as text."""
    import sys

    return _SUMMARY.format(version=sys.version.split(maxsplit=1)[0])
