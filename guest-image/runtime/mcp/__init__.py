"""What the sandbox offers to the code that runs in it. The functions are in `mcp.runtime`."""

__all__ = ["runtime"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp import runtime


def __getattr__(name: str) -> object:
    # `import mcp` is on the way to every start of the guest, so the public part is loaded when asked for.
    if name != "runtime":
        raise AttributeError(f"module 'mcp' has no attribute {name!r}", name=name)
    import mcp.runtime

    return mcp.runtime
