"""Imports on first use, safe from user files that are named like modules of the standard library.

    if TYPE_CHECKING:
        import linecache
    else:
        linecache = lazy("linecache")
"""

import _thread
import posix
import sys

__all__ = ["lazy", "load"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_loaded: "dict[str, Any]" = {}
# The search path at the start of the guest: without the working directory.
_path = list(sys.path)
_lock = _thread.RLock()


class LazyModule:
    """A module that is imported when one of its attributes is first used."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> "Any":
        module = _loaded.get(self._name)
        return getattr(load(self._name) if module is None else module, attribute)


lazy = LazyModule


def load(name: str) -> "Any":
    """Imports a module as the runtime finds it, whatever user code has put into `sys.path`."""
    module = _loaded.get(name)
    if module is None:
        # User threads come here too: two at once would take the runtime's path for the user's.
        with _lock:
            user_path = sys.path[:]
            sys.path[:] = _path
            try:
                __import__(name)
                module = sys.modules[name]
            finally:
                sys.path[:] = user_path
        _loaded[name] = module
    return module


def _replace_lock() -> None:
    """Runs in a forked child, which may lack the thread that holds the lock."""
    global _lock
    _lock = _thread.RLock()


posix.register_at_fork(after_in_child=_replace_lock)
