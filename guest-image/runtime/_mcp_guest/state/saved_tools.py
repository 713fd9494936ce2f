"""Saved tools: bound by name at the start of the session, compiled when code first mentions them.

Each has a namespace of its own with what it needs: imports and constants are saved with it, other
tools and servers are bound there. The rest of `user_tools.py`, which its owner writes by hand, is
one more such namespace.
"""

import _ast
import builtins
import sys

from _mcp_guest.api.errors import MCPError
from _mcp_guest.worker import environment
from _mcp_guest.worker.source import ONLY_AST, names_in, remember

__all__ = ["MODULE", "OWN_FILE", "Stub", "ToolLibrary"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType
    from typing import Any

    from _mcp_guest.session import Session
else:
    ModuleType = type(sys)

MODULE = "user_tools"
OWN_FILE = "<user_tools.py>"


class Stub:
    """Stands for a tool until it is loaded, and for one that cannot be: any use loads it, or raises
    the reason."""

    __slots__ = ("_tool",)

    def __init__(self, tool: "Tool") -> None:
        self._tool = tool

    def __getattr__(self, name: str) -> "Any":
        if name.startswith("_mcp_"):
            raise AttributeError(name)
        return getattr(self._tool.value(), name)

    def __call__(self, *args: object, **kwargs: object) -> "Any":
        return self._tool.value()(*args, **kwargs)

    def __repr__(self) -> str:
        return repr(self._tool.value())


class Tool:
    """One name. Those of the owner's text share its source and namespace."""

    def __init__(self, library: "ToolLibrary", name: str, source: str, filename: str) -> None:
        self.library, self.name, self.source, self.filename = library, name, source, filename
        self.namespace: dict[str, Any] | None = None
        self.loading = False
        # Why it cannot be loaded.
        self.failure = ""

    def value(self) -> "Any":
        """The function or class; raises `MCPError` where it cannot be loaded."""
        if self.namespace is None:
            self.library.load(self)
        if self.namespace is None or self.name not in self.namespace:
            raise MCPError(self.failure or f"saved tool {self.name!r} defines no {self.name!r}")
        return self.namespace[self.name]

    def mentions_servers(self) -> bool:
        """Whether servers must be bound before it runs."""
        return "mcp_" in self.source


class ToolLibrary:
    """All tools of one session."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        self.tools: dict[str, Tool] = {}
        # What the owner of `user_tools.py` wrote there.
        self.own: Tool | None = None
        # Whether the names have not been bound yet.
        self.is_new = False
        # Namespaces, and the names that they still lack: of tools that are being loaded.
        self.unbound: list[tuple[dict[str, Any], str]] = []

    def receive(self, saved: object, own: object) -> None:
        """Takes what the host has, in the reading thread, before any code has run."""
        fresh = ToolLibrary(self.session)
        for entry in saved if isinstance(saved, list) else ():
            name, source = entry
            fresh.tools[name] = Tool(self, name, source, f"<tool {name}>")
        if isinstance(own, str) and own.strip():
            fresh.own = Tool(self, "", own, OWN_FILE)
        fresh.is_new = True
        self.__dict__.update(fresh.__dict__)
        everything = (*fresh.tools.values(), *((fresh.own,) if fresh.own else ()))
        self.session.has_saved_tools = True
        self.session.tools_mention_servers = any(tool.mentions_servers() for tool in everything)

    def bind(self, namespace: "dict[str, Any]") -> None:
        """Binds all names in the namespace of user code, once."""
        if not self.is_new:
            return
        self._read_own()
        for name, tool in self.tools.items():
            if name not in namespace and not hasattr(builtins, name):
                namespace[name] = Stub(tool)
        self.module()
        self.is_new = False

    def _read_own(self) -> None:
        """Finds the names that the owner's text defines. Text that does more than define names runs
        now."""
        own = self.own
        if own is None or not self.is_new:
            return
        try:
            names, only_defines = _names_of(own.source)
        except (SyntaxError, ValueError) as error:
            own.failure = f"{_reason(error)}"
            print(f"user_tools.py is not read, but for the saved tools in it: {own.failure}", file=sys.stderr)
            return
        if not only_defines:
            if own.namespace is None:
                self.load(own)
            if own.failure:
                print(own.failure, file=sys.stderr)
            provided = {*environment.provided_names(), "__name__", "__builtins__"}
            names = [name for name in own.namespace or () if not name.startswith("_") and name not in provided]
        for name in names:
            if name not in self.tools:
                tool = Tool(self, name, own.source, OWN_FILE)
                tool.namespace = own.namespace
                self.tools[name] = tool

    def resolve(self, code: "CodeType", namespace: "dict[str, Any]") -> None:
        """Replaces the stubs that the code mentions with the tools."""
        for name in names_in(code):
            stub = namespace.get(name)
            if type(stub) is Stub:
                try:
                    namespace[name] = stub._tool.value()
                except MCPError:
                    pass  # Using the stub raises it again.

    def put(self, name: str, source: str) -> None:
        """Adds a tool that was saved; tools that are loaded later use this version."""
        tool = self.tools[name] = Tool(self, name, source, f"<tool {name}>")
        self.session.has_saved_tools = True
        self.session.tools_mention_servers = self.session.tools_mention_servers or tool.mentions_servers()
        vars(self.module()).pop(name, None)

    def forget(self, name: str) -> None:
        """Removes a tool that was deleted."""
        self.tools.pop(name, None)
        vars(self.module()).pop(name, None)

    def load(self, tool: Tool) -> None:
        """Runs the source of a tool, after those of the tools that it needs."""
        own = self.own
        if tool.filename == OWN_FILE and own is not None and tool is not own:
            if own.namespace is None:
                self.load(own)
            tool.namespace, tool.failure = own.namespace, own.failure
            return
        if tool.loading:
            return
        tool.loading = True
        namespace = _new_namespace()
        if self.session.projects.is_mentioned(tool.source):
            self.session.projects.catch_up()
        try:
            remember(tool.filename, tool.source)
            code = compile(tool.source, tool.filename, "exec", dont_inherit=True)
            self._bind_needed(namespace, code, tool)
            exec(code, namespace)
        except BaseException as error:
            what = f"saved tool {tool.name!r}" if tool.name else "user_tools.py"
            advice = f"; save it again, or delete_tool({tool.name!r})" if tool.name else ""
            tool.failure = f"{what} cannot be loaded: {_reason(error)}{advice}"
            if not tool.name:
                tool.namespace = namespace  # It has what was defined before the failure.
            if not isinstance(error, (Exception, SystemExit)):
                raise  # The run was interrupted.
            return
        finally:
            tool.loading = False
        tool.namespace = namespace
        self.session.tool_namespaces.append(namespace)
        if tool.name in namespace:
            setattr(self.module(), tool.name, namespace[tool.name])
        for other, name in self.unbound:
            if name in namespace and (name == tool.name or tool.filename == OWN_FILE):
                other[name] = namespace[name]

    def _bind_needed(self, namespace: "dict[str, Any]", code: "CodeType", tool: Tool) -> None:
        """Binds the other tools that the code of a tool mentions."""
        for name in names_in(code):
            other = self.tools.get(name)
            if other is None or other is tool or (tool.filename == OWN_FILE and other.filename == OWN_FILE):
                continue
            if other.namespace is None and not other.loading:
                self.load(other)
            if other.namespace is not None and name in other.namespace:
                namespace[name] = other.namespace[name]
            else:
                namespace[name] = Stub(other)
                self.unbound.append((namespace, name))

    def module(self) -> "ToolModule":
        """The module `user_tools`, for imports and pickle."""
        module = sys.modules.get(MODULE)
        if not isinstance(module, ToolModule):
            module = sys.modules[MODULE] = ToolModule(self)
        return module


class ToolModule(ModuleType):
    """`user_tools`: finds tools by name, and loads them."""

    def __init__(self, library: ToolLibrary) -> None:
        super().__init__(MODULE, "The saved tools.")
        self.__mcp_library__ = library

    def __getattr__(self, name: str) -> "Any":
        tool = self.__mcp_library__.tools.get(name)
        if tool is None:
            raise AttributeError(f"no saved tool {name!r}", name=name, obj=self)
        return tool.value()

    def __dir__(self) -> "list[str]":
        return sorted(self.__mcp_library__.tools)


def _new_namespace() -> "dict[str, Any]":
    main = sys.modules["__main__"].__dict__
    servers = {name: value for name, value in main.items() if name.startswith("mcp_")}
    return {**servers, **environment.provided_names(), "__name__": MODULE, "__builtins__": builtins}


def _names_of(source: str) -> "tuple[list[str], bool]":
    """The public names that a text defines at top level, and whether it does nothing else."""
    tree = compile(source, OWN_FILE, "exec", ONLY_AST, dont_inherit=True)
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


def _reason(error: BaseException) -> str:
    """The error in one line, with the line of the tool that caused it."""
    place = ""
    if isinstance(error, SyntaxError) and error.lineno:
        place = f" (line {error.lineno})"
    trace = error.__traceback__
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if filename == OWN_FILE or filename.startswith("<tool "):
            place = f" (line {trace.tb_lineno})"
        trace = trace.tb_next
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {message[:500]}{place}"
