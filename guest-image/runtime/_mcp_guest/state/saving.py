"""Saves tools: takes the source from the cell that defines it, with the imports and constants that
it needs."""

import builtins
import sys

from _mcp_guest.api.errors import brief
from _mcp_guest.lazy import lazy
from _mcp_guest.session import session
from _mcp_guest.state.saved_tools import MODULE, OWN_FILE, Stub
from _mcp_guest.worker import environment
from _mcp_guest.worker.source import is_user_code

__all__ = ["delete", "listing", "save"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator
    import inspect
    import linecache
    import symtable
    from typing import Any
else:
    ast = lazy("ast")
    inspect = lazy("inspect")
    linecache = lazy("linecache")
    symtable = lazy("symtable")

# A constant that is saved with a tool has at most this many characters.
CONSTANT_CHARACTERS = 2000
_PLAIN = (int, float, complex, str, bytes, bool, type(None))


class _Needs:
    """What a tool needs from its namespace: lines to save before it, and how the answer names
    them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.descriptions: list[str] = []


def save(functions: "tuple[Any, ...]") -> str:
    if not functions:
        raise brief(TypeError("save_tool: give it the function to save"))
    together = {getattr(function, "__name__", "") for function in functions}
    made = [_source_of(function, together) for function in functions]
    sentences = []
    for name, source, descriptions in made:
        answer = session.calls.request_sync("tools.save", {"name": name, "source": source})
        session.saved_tools.put(name, source)
        version = answer.get("version") if isinstance(answer, dict) else 1
        number = f" (version {version})" if isinstance(version, int) and version > 1 else ""
        with_it = f", with {', '.join(descriptions)}" if descriptions else ""
        sentences.append(f"saved tool {name!r}{number}{with_it}; it is there in every later session")
    return "\n".join(sentences)


def listing() -> "list[dict[str, Any]]":
    answer = session.calls.request_sync("tools.list", {})
    found = answer.get("tools") if isinstance(answer, dict) else None
    return list(found) if isinstance(found, list) else []


def delete(name: str) -> bool:
    if not isinstance(name, str):
        raise brief(TypeError(f"delete_tool: name must be a text, not {type(name).__name__}"))
    answer = session.calls.request_sync("tools.delete", {"name": name})
    session.saved_tools.forget(name)
    return isinstance(answer, dict) and answer.get("deleted") is True


def _refuse(name: str, reason: str) -> BaseException:
    return brief(ValueError(f"save_tool: {name}() cannot be saved: {reason}"))


def _source_of(function: "Any", together: "set[str]") -> "tuple[str, str, list[str]]":
    """The name, the source to save, and descriptions of what is saved with it."""
    if type(function) is Stub:
        function = function._tool.value()
    if not (isinstance(function, type) or callable(function)):
        raise brief(TypeError(f"save_tool: give it a function or a class, not {type(function).__name__}"))
    target = inspect.unwrap(function)
    name = str(getattr(target, "__name__", type(function).__name__))
    if name == "<lambda>":
        raise _refuse("lambda", "it has no name; use def")
    if name.startswith("_"):
        raise _refuse(name, "its name begins with _; saved tools have public names")
    if hasattr(builtins, name):
        raise _refuse(name, f"it would hide Python's own {name}")
    if name in environment.provided_names() or name.startswith("mcp_"):
        raise _refuse(name, f"it would hide the sandbox's own {name}")
    if hasattr(target, "__func__"):
        raise _refuse(name, "it is a method; save its class, or a function")
    closure = getattr(target, "__closure__", None)
    if closure:
        variables = ", ".join(target.__code__.co_freevars)
        advice = "pass that as an argument (a decorator needs functools.wraps)"
        raise _refuse(name, f"it holds {variables} of the function around it; {advice}")
    source, namespace = _find(target, name)
    needs = _needs_of(name, source, namespace, together)
    head = "\n".join(needs.lines)
    whole = f"{head}\n\n\n{source}" if head else source
    try:
        compile(whole, f"<tool {name}>", "exec", dont_inherit=True)
    except SyntaxError as error:
        raise _refuse(name, f"by itself it is not valid Python: {error.msg} (line {error.lineno})") from None
    return name, whole, needs.descriptions


def _find(target: "Any", name: str) -> "tuple[str, dict[str, Any]]":
    """The text of the definition as its cell has it, and the namespace around it."""
    if isinstance(target, type):
        module = sys.modules.get(target.__module__)
        namespace = module.__dict__ if module is not None else {}
        first = getattr(target, "__firstlineno__", None)
        cached: Any = linecache.cache
        candidates = list(reversed(cached)) if target.__module__ == "__main__" else []
        if target.__module__ == MODULE:
            candidates = [f"<tool {name}>", OWN_FILE]
        filenames = [file for file in candidates if isinstance(file, str) and file.startswith("<")]
    else:
        code = getattr(target, "__code__", None)
        if code is None:
            raise _refuse(name, "it is not written in Python")
        namespace, first, filenames = target.__globals__, code.co_firstlineno, [code.co_filename]
    for filename in filenames:
        lines = linecache.getlines(filename, namespace)
        found = _definition(lines, name, first)
        if found:
            return found, namespace
    raise _refuse(name, "its source is not known; define it in a cell, with def or class")


def _definition(lines: "list[str]", name: str, first: int | None) -> str:
    try:
        tree = compile("".join(lines), "<source>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except (SyntaxError, ValueError):
        return ""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == name:
            start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first in (None, start, node.lineno):
                text = lines[start - 1 : node.end_lineno]
                return "".join(_dedented(text, start, node) if node.col_offset else text)
    return ""


def _dedented(lines: "list[str]", start: int, node: "ast.stmt") -> "Iterator[str]":
    """The lines of a definition inside a block, without its indentation. Lines within a string stay
    unchanged."""
    texts = (ast.Constant, ast.JoinedStr, getattr(ast, "TemplateStr", ast.JoinedStr))
    inside: set[int] = set()
    for part in ast.walk(node):
        if isinstance(part, texts):
            inside.update(range(part.lineno + 1, (part.end_lineno or part.lineno) + 1))
    for number, line in enumerate(lines, start):
        blanks = len(line) - len(line.lstrip(" \t\f"))
        yield line if number in inside else line[min(node.col_offset, blanks) :]


def _needs_of(name: str, source: str, namespace: "dict[str, Any]", together: "set[str]") -> _Needs:
    needs = _Needs()
    unsaved: list[str] = []
    for used, is_required in sorted(_names_used(source).items()):
        if used == name:
            continue
        if used not in namespace:
            known = hasattr(builtins, used) or used in session.saved_tools.tools or used in together
            if is_required and not known and not used.startswith("mcp_"):
                raise _refuse(name, f"it uses {used}, which is not defined here")
            continue
        value = namespace[used]
        if _is_in_every_session(used, value, together):
            continue
        home = _session_module(value)
        if home:
            if is_required:
                advice = "define it in a cell, and save it too"
                raise _refuse(name, f"it uses {used} of {home}, a file that later sessions do not import; {advice}")
            continue
        line = _line_for(used, value)
        if line:
            needs.lines.append(line)
            needs.descriptions.append(line if line.startswith(("import ", "from ")) else f"{used} as it is now")
        elif getattr(value, "__module__", None) == "__main__" and hasattr(value, "__name__") and callable(value):
            unsaved.append(used)
        elif is_required:
            kind = type(value).__name__
            raise _refuse(name, f"it uses {used} ({kind}), a variable of this session; pass it as an argument")
    if unsaved:
        both = ", ".join([*unsaved, name])
        raise _refuse(name, f"it uses {', '.join(unsaved)}, not saved yet; save them together: save_tool({both})")
    needs.lines.sort(key=lambda line: (not line.startswith(("import ", "from ")), line))
    return needs


def _is_in_every_session(used: str, value: object, together: "set[str]") -> bool:
    if used in together or type(value) is Stub or used.startswith("mcp_"):
        return True
    if environment.provided_names().get(used) is value and value is not None:
        return True
    is_saved = used in session.saved_tools.tools
    return is_saved and getattr(value, "__module__", None) in (MODULE, "__main__")


def _session_module(value: "Any") -> str:
    """The module of the session's own files that the value is, or is defined in; empty for other
    values."""
    name = str(getattr(value, "__name__" if isinstance(value, type(sys)) else "__module__", ""))
    file = getattr(sys.modules.get(name), "__file__", None)
    return name if name != "__main__" and isinstance(file, str) and is_user_code(file) else ""


def _line_for(used: str, value: "Any") -> str:
    """The line that makes the same value in another session; empty where none can."""
    if isinstance(value, type(sys)):
        full = value.__name__
        if sys.modules.get(full) is not value or getattr(value, "__spec__", None) is None:
            return ""
        return f"import {full}" if full == used else f"import {full} as {used}"
    module, own = str(getattr(value, "__module__", "")), str(getattr(value, "__name__", ""))
    elsewhere = module not in ("", "__main__", MODULE)
    if elsewhere and own and getattr(sys.modules.get(module), own, None) is value:
        return f"from {module} import {own}" if own == used else f"from {module} import {own} as {used}"
    if _is_constant(value, 10):
        text = repr(value)
        if len(text) <= CONSTANT_CHARACTERS:
            return f"{used} = {text}"
    return ""


def _is_constant(value: "Any", depth: int) -> bool:
    if type(value) in _PLAIN:
        return value == value and value not in (float("inf"), float("-inf"))
    if not depth:
        return False
    if type(value) in (tuple, list, set) and value:
        return all(_is_constant(item, depth - 1) for item in value)
    if type(value) is dict:
        return all(_is_constant(item, depth - 1) for pair in value.items() for item in pair)
    return type(value) in (tuple, list)


def _names_used(source: str) -> "dict[str, bool]":
    """The global names that a definition uses, and whether it fails without them."""
    used: dict[str, bool] = {}
    top = symtable.symtable(source, "<tool>", "exec")
    tables = [(top, True)]
    while tables:
        table, is_required = tables.pop()
        for symbol in table.get_symbols():
            outside = symbol.is_global() or table is top
            if symbol.is_referenced() and outside and not (table is top and symbol.is_assigned()):
                used[symbol.get_name()] = used.get(symbol.get_name(), False) or is_required
        # Annotations are evaluated only when something asks for them.
        for child in table.get_children():
            kind = str(getattr(child.get_type(), "value", child.get_type()))
            tables.append((child, is_required and "annotation" not in kind))
    return used
