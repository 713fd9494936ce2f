"""Saved tools: there by name from the start of the session, compiled when code first mentions them.

Each lives in a namespace of its own, together with what it needs: imports and constants are saved with it, other tools
and servers are put there. What the owner of `user_tools.py` wrote besides is one more such namespace.
"""

import _ast
import builtins
import sys

from _mcp_guest.worker import environment
from _mcp_guest.api.errors import MCPError
from _mcp_guest.lazy import load
from _mcp_guest.worker.source import ONLY_AST, names_in, remember

__all__ = ["Stub", "bind", "entries", "forget", "learn", "put", "receive", "resolve", "stub_of"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

MODULE = "user_tools"
OWN = "<user_tools.py>"


class Stub:
    """Stands for a tool until it is needed, and for one that is broken: any use of it loads it, or says why not."""

    __slots__ = ("_tool",)

    def __init__(self, tool: "_Tool") -> None:
        self._tool = tool

    def __getattr__(self, name: str) -> "Any":
        if name.startswith("_mcp_"):
            raise AttributeError(name)
        return getattr(self._tool.value(), name)

    def __call__(self, *args: object, **kwargs: object) -> "Any":
        return self._tool.value()(*args, **kwargs)

    def __repr__(self) -> str:
        return repr(self._tool.value())


class _Tool:
    """One name. Those of the owner's text share their source and come to life together."""

    def __init__(self, name: str, source: str, filename: str) -> None:
        self.name, self.source, self.filename = name, source, filename
        self.space: dict[str, Any] | None = None
        self.loading = False
        self.broken = ""

    def value(self) -> "Any":
        """The function itself; raises where it cannot be had."""
        if self.space is None:
            _load_one(self)
        if self.space is None or self.name not in self.space:
            raise MCPError(self.broken or f"saved tool {self.name!r} defines no {self.name!r}")
        return self.space[self.name]


class _Library:
    """All tools of this session."""

    def __init__(self) -> None:
        self.tools: dict[str, _Tool] = {}
        self.own: _Tool | None = None
        self.own_at_once = False
        self.fresh = False
        # Names that a tool needs from one that is still being loaded.
        self.owed: list[tuple[dict[str, Any], str]] = []


_library = _Library()


def receive(saved: object, own: object) -> None:
    """In the thread that reads, before any code has run: what the host has."""
    library = _Library()
    for entry in saved if isinstance(saved, list) else ():
        name, source = entry
        library.tools[name] = _Tool(name, source, f"<tool {name}>")
    if isinstance(own, str) and own.strip():
        library.own = _Tool("", own, OWN)
    library.fresh = True
    _library.__dict__.update(library.__dict__)
    environment.kept.tools = True
    environment.kept.speaking = any(map(_speaks, (*library.tools.values(), library.own)))


def learn() -> None:
    """Before the first cell: the names of the owner's text. One that does more than to define things runs now."""
    own = _library.own
    if own is None or not _library.fresh:
        return
    try:
        names, simple = _names_of(own.source)
    except (SyntaxError, ValueError) as error:
        own.broken = f"{_why(error)}"
        print(f"user_tools.py is not read, but for the saved tools in it: {own.broken}", file=sys.stderr)
        return
    if not simple:
        if own.space is None:
            _load_one(own)
        if own.broken:
            print(own.broken, file=sys.stderr)
        names = [name for name in own.space or () if not name.startswith("_") and name not in _starting_names()]
    for name in names:
        if name not in _library.tools:
            tool = _Tool(name, own.source, OWN)
            tool.space = own.space
            _library.tools[name] = tool


def bind(namespace: "dict[str, Any]") -> None:
    """Gives the names to user code, once."""
    if not _library.fresh:
        return
    learn()
    for name, tool in _library.tools.items():
        if name not in namespace and not hasattr(builtins, name):
            namespace[name] = Stub(tool)
    _module()
    _library.fresh = False


def resolve(code: "CodeType", namespace: "dict[str, Any]") -> None:
    """Puts real functions in the place of stubs that the code mentions."""
    for name in names_in(code):
        stub = namespace.get(name)
        if type(stub) is Stub:
            try:
                namespace[name] = stub._tool.value()
            except MCPError:
                pass  # said when it is used


def entries() -> "dict[str, _Tool]":
    return _library.tools


def stub_of(name: str) -> "Stub | None":
    tool = _library.tools.get(name)
    return None if tool is None else Stub(tool)


def put(name: str, source: str) -> None:
    """It was saved: other tools find it as it is now."""
    tool = _library.tools[name] = _Tool(name, source, f"<tool {name}>")
    environment.kept.tools = True
    environment.kept.speaking = environment.kept.speaking or _speaks(tool)
    vars(_module()).pop(name, None)


def forget(name: str) -> None:
    """It was deleted."""
    _library.tools.pop(name, None)
    vars(_module()).pop(name, None)


def _speaks(tool: "_Tool | None") -> bool:
    """Of servers, which are to be there before it runs."""
    return tool is not None and "mcp_" in tool.source


def _load_one(tool: _Tool) -> None:
    """Brings a tool to life, and first those that it needs."""
    if tool.filename == OWN and _library.own is not None and tool is not _library.own:
        if _library.own.space is None:
            _load_one(_library.own)
        tool.space, tool.broken = _library.own.space, _library.own.broken
        return
    if tool.loading:
        return
    tool.loading = True
    space = _new_space()
    if "projects" in tool.source:
        load("_mcp_guest.state.projects").settle()
    try:
        remember(tool.filename, tool.source)
        code = compile(tool.source, tool.filename, "exec", dont_inherit=True)
        _give(space, code, tool)
        exec(code, space)
    except BaseException as error:
        spoken = f"saved tool {tool.name!r}" if tool.name else "user_tools.py"
        mend = f"; save it anew, or delete_tool({tool.name!r})" if tool.name else ""
        tool.broken = f"{spoken} cannot be loaded: {_why(error)}{mend}"
        if not tool.name:
            tool.space = space  # what it defined before it failed
        if not isinstance(error, (Exception, SystemExit)):
            raise  # the run was interrupted meanwhile
        return
    finally:
        tool.loading = False
    tool.space = space
    environment.spaces.append(space)
    if tool.name in space:
        setattr(_module(), tool.name, space[tool.name])
    for other, name in [owed for owed in _library.owed if owed[1] in space]:
        if name == tool.name or tool.filename == OWN:
            other[name] = space[name]


def _give(space: "dict[str, Any]", code: "CodeType", tool: _Tool) -> None:
    """The other tools that the code mentions."""
    for name in names_in(code):
        other = _library.tools.get(name)
        if other is None or other is tool or (tool.filename == OWN and other.filename == OWN):
            continue
        if other.space is None and not other.loading:
            _load_one(other)
        if other.space is not None and name in other.space:
            space[name] = other.space[name]
        else:
            space[name] = Stub(other)
            _library.owed.append((space, name))


def _new_space() -> "dict[str, Any]":
    main = sys.modules["__main__"].__dict__
    servers = {name: value for name, value in main.items() if name.startswith("mcp_")}
    return {**servers, **environment.offered(), "__name__": MODULE, "__builtins__": builtins}


def _starting_names() -> "set[str]":
    return {*environment.offered(), "__name__", "__builtins__"}


def _names_of(source: str) -> "tuple[list[str], bool]":
    """Public names that a text defines at its top level, and whether that is all it does."""
    tree = compile(source, OWN, "exec", ONLY_AST, dont_inherit=True)
    assert isinstance(tree, _ast.Module)
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, (_ast.FunctionDef, _ast.AsyncFunctionDef, _ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, (_ast.Import, _ast.ImportFrom)):
            found = [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
            if "*" in found:
                return [], False
            if not (isinstance(node, _ast.ImportFrom) and node.module == "__future__"):
                names += found
        elif isinstance(node, (_ast.Assign, _ast.AnnAssign)):
            targets = node.targets if isinstance(node, _ast.Assign) else [node.target]
            if not all(isinstance(target, _ast.Name) for target in targets):
                return [], False
            names += [target.id for target in targets if isinstance(target, _ast.Name)]
        elif not (isinstance(node, _ast.Expr) and isinstance(node.value, _ast.Constant)):
            return [], False
    if "__all__" in names:
        return [], False
    return list(dict.fromkeys(name for name in names if not name.startswith("_"))), True


def _why(error: BaseException) -> str:
    """In one line, with the line of the tool it came from."""
    place = ""
    if isinstance(error, SyntaxError) and error.lineno:
        place = f" (line {error.lineno})"
    trace = error.__traceback__
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if filename == OWN or filename.startswith("<tool "):
            place = f" (line {trace.tb_lineno})"
        trace = trace.tb_next
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {message[:500]}{place}"


def _module() -> "Any":
    """`user_tools`, for `import user_tools` and for pickle."""
    module = sys.modules.get(MODULE)
    if not isinstance(module, _Module):
        module = sys.modules[MODULE] = _Module(MODULE, "The saved tools.")
    return module


class _Module(type(sys)):  # type: ignore[misc]
    """Finds tools by name, those included that nobody has used yet."""

    def __getattr__(self, name: str) -> "Any":
        tool = _library.tools.get(name)
        if tool is None:
            raise AttributeError(f"no saved tool {name!r}", name=name, obj=self)
        return tool.value()

    def __dir__(self) -> "list[str]":
        return sorted(_library.tools)

