"""What the sandbox offers to the code that runs in it. The functions are in `mcp.runtime`."""

__all__ = ["runtime", "servers"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp import runtime, servers


def __getattr__(name: str) -> object:
    # `import mcp` is on the way to every start of the guest, so the public part is loaded when asked for.
    if name not in __all__:
        raise AttributeError(f"module 'mcp' has no attribute {name!r}", name=name)
    import sys

    __import__(f"mcp.{name}")
    return sys.modules[f"mcp.{name}"]
