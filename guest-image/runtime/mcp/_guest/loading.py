"""Imports of the standard library that the user's own files of the same name cannot hijack."""

import sys

__all__ = ["load"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_loaded: "dict[str, Any]" = {}
# As it was when the guest began: without the working directory.
_path = list(sys.path)


def load(name: str) -> "Any":
    """The module as the runtime first saw it."""
    module = _loaded.get(name)
    if module is None:
        users = sys.path[:]
        sys.path[:] = _path
        try:
            __import__(name)
            module = sys.modules[name]
        finally:
            sys.path[:] = users
        _loaded[name] = module
    return module
