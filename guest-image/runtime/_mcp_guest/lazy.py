"""Imports of the standard library that the user's own files of the same name cannot hijack."""

import _thread
import posix
import sys

__all__ = ["load"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_loaded: "dict[str, Any]" = {}
# As it was when the guest began: without the working directory.
_path = list(sys.path)
_lock = _thread.RLock()


def load(name: str) -> "Any":
    """The module as the runtime first saw it."""
    module = _loaded.get(name)
    if module is None:
        # Threads of user code come here too, and two at once would take the runtime's path for the user's.
        with _lock:
            users = sys.path[:]
            sys.path[:] = _path
            try:
                __import__(name)
                module = sys.modules[name]
            finally:
                sys.path[:] = users
        _loaded[name] = module
    return module


def _new_lock() -> None:
    """In a forked child, where the thread that holds the lock may be missing."""
    global _lock
    _lock = _thread.RLock()


posix.register_at_fork(after_in_child=_new_lock)
