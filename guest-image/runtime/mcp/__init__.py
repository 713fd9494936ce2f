"""What the sandbox offers to the code that runs in it. The functions are in `mcp.runtime`.

The official SDK on PyPI is named `mcp` too. Where an image has it, this package includes it:
`import mcp.types` and `from mcp import ClientSession` work beside `mcp.runtime` and `mcp.servers`.
"""

import posix
import sys

__all__ = ["runtime", "servers"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mcp import runtime, servers


def _find_sdk() -> "str | None":
    """The folder of the SDK, behind the runtime on the search path."""
    for folder in sys.path:
        path = f"{folder}/mcp"
        try:
            posix.stat(f"{path}/__init__.py")
        except OSError:
            continue
        if path not in __path__:
            return path
    return None


_sdk_folder = _find_sdk()
_sdk_names: "dict[str, Any] | None" = None
if _sdk_folder is not None:
    __path__.append(_sdk_folder)


def _sdk() -> "dict[str, Any]":
    """The names of the SDK's own `mcp`, which is executed on first use. Its submodules are this
    package's too."""
    global _sdk_names
    if _sdk_names is None and _sdk_folder is not None:
        file = f"{_sdk_folder}/__init__.py"
        from importlib.util import module_from_spec, spec_from_file_location

        spec = spec_from_file_location("mcp", file, submodule_search_locations=[_sdk_folder])
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        # Before the code runs: the SDK's modules import each other, and find what is defined so
        # far.
        _sdk_names = vars(module)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            _sdk_names = None
            raise
    return _sdk_names or {}


def __getattr__(name: str) -> object:
    # Every start imports `mcp`, so its public parts are loaded on first use.
    if name in __all__:
        __import__(f"mcp.{name}")
        return sys.modules[f"mcp.{name}"]
    # Names with underscores at both ends describe this package, not the SDK.
    if not name.startswith("__"):
        names = _sdk()
        if name in names:
            return names[name]
    raise AttributeError(f"module 'mcp' has no attribute {name!r}", name=name)


def __dir__() -> "list[str]":
    return sorted({*__all__, *(name for name in globals() if name.startswith("__")), *_sdk()})
