"""Saves a tool: its source is taken from the cell that defined it, with the imports and constants that it needs."""

import builtins
import sys

from _mcp_guest.worker import environment
from _mcp_guest.state import saved_tools
from _mcp_guest.api.errors import brief
from _mcp_guest.lazy import load
from _mcp_guest.servers.rpc import calls
from _mcp_guest.worker.source import is_user_code

__all__ = ["delete", "listing", "save"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# Characters of a constant that is saved with a tool.
CONSTANT_CHARACTERS = 2000
_PLAIN = (int, float, complex, str, bytes, bool, type(None))


class _Need:
    """What a tool takes from around it: lines for its head, or the reason why it cannot be saved."""

    def __init__(self, lines: "list[str]", told: "list[str]") -> None:
        self.lines, self.told = lines, told


def save(functions: "tuple[Any, ...]") -> str:
    if not functions:
        raise brief(TypeError("save_tool: give it the function to save"))
    together = {getattr(function, "__name__", "") for function in functions}
    made = [_source_of(function, together) for function in functions]
    sentences = []
    for name, source, told in made:
        answer = calls().request_sync("tools.save", {"name": name, "source": source})
        saved_tools.put(name, source)
        version = answer.get("version") if isinstance(answer, dict) else 1
        number = f" (version {version})" if isinstance(version, int) and version > 1 else ""
        with_it = f", with {', '.join(told)}" if told else ""
        sentences.append(f"saved tool {name!r}{number}{with_it}; it is there in every later session")
    return "\n".join(sentences)


def listing() -> "list[dict[str, Any]]":
    answer = calls().request_sync("tools.list", {})
    found = answer.get("tools") if isinstance(answer, dict) else None
    return list(found) if isinstance(found, list) else []


def delete(name: str) -> bool:
    if not isinstance(name, str):
        raise brief(TypeError(f"delete_tool: name must be a text, not {type(name).__name__}"))
    answer = calls().request_sync("tools.delete", {"name": name})
    saved_tools.forget(name)
    return isinstance(answer, dict) and answer.get("deleted") is True


def _refuse(name: str, reason: str) -> BaseException:
    return brief(ValueError(f"save_tool: {name}() cannot be saved: {reason}"))


def _source_of(function: "Any", together: "set[str]") -> "tuple[str, str, list[str]]":
    """Name, whole source, and what is saved along with it."""
    if type(function) is saved_tools.Stub:
        function = function._tool.value()
    if not (isinstance(function, type) or callable(function)):
        raise brief(TypeError(f"save_tool: give it a function or a class, not {type(function).__name__}"))
    target = load("inspect").unwrap(function)
    name = str(getattr(target, "__name__", type(function).__name__))
    if name == "<lambda>":
        raise _refuse("lambda", "it has no name; use def")
    if name.startswith("_"):
        raise _refuse(name, "its name begins with _; saved tools have public names")
    if hasattr(builtins, name):
        raise _refuse(name, f"it would hide Python's own {name}")
    if name in environment.offered() or name.startswith("mcp_"):
        raise _refuse(name, f"it would hide the sandbox's own {name}")
    if hasattr(target, "__func__"):
        raise _refuse(name, "it is a method; save its class, or a function")
    closure = getattr(target, "__closure__", None)
    if closure:
        held = ", ".join(target.__code__.co_freevars)
        mend = "pass that as an argument (a decorator needs functools.wraps)"
        raise _refuse(name, f"it holds {held} of the function around it; {mend}")
    source, namespace = _find(target, name)
    need = _needs(name, source, namespace, together)
    head = "\n".join(need.lines)
    whole = f"{head}\n\n\n{source}" if head else source
    try:
        compile(whole, f"<tool {name}>", "exec", dont_inherit=True)
    except SyntaxError as error:
        raise _refuse(name, f"taken by itself it is no Python: {error.msg} (line {error.lineno})") from None
    return name, whole, need.told


def _find(target: "Any", name: str) -> "tuple[str, dict[str, Any]]":
    """The text of the definition, as it stands in its cell, and the namespace around it."""
    linecache = load("linecache")
    if isinstance(target, type):
        module = sys.modules.get(target.__module__)
        namespace = module.__dict__ if module is not None else {}
        first = getattr(target, "__firstlineno__", None)
        places = list(reversed(linecache.cache)) if target.__module__ == "__main__" else []
        if target.__module__ == saved_tools.MODULE:
            places = [f"<tool {name}>", saved_tools.OWN]
        filenames = [place for place in places if isinstance(place, str) and place.startswith("<")]
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
    ast = load("ast")
    try:
        tree = compile("".join(lines), "<source>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except (SyntaxError, ValueError):
        return ""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == name:
            start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first in (None, start, node.lineno):
                text = lines[start - 1 : node.end_lineno]
                return "".join(_dedented(text, start, node, ast) if node.col_offset else text)
    return ""


def _dedented(lines: "list[str]", start: int, node: "Any", ast: "Any") -> "Iterator[str]":
    """A definition that stood in a block. What lies within a string is no indentation."""
    texts = (ast.Constant, ast.JoinedStr, getattr(ast, "TemplateStr", ast.JoinedStr))
    inside: set[int] = set()
    for part in ast.walk(node):
        if isinstance(part, texts):
            inside.update(range(part.lineno + 1, part.end_lineno + 1))
    for number, line in enumerate(lines, start):
        blanks = len(line) - len(line.lstrip(" \t\f"))
        yield line if number in inside else line[min(node.col_offset, blanks) :]


def _needs(name: str, source: str, namespace: "dict[str, Any]", together: "set[str]") -> _Need:
    need = _Need([], [])
    unsaved: list[str] = []
    for used, matters in sorted(_names_used(source).items()):
        if used == name:
            continue
        if used not in namespace:
            known = hasattr(builtins, used) or used in saved_tools.entries() or used in together
            if matters and not known and not used.startswith("mcp_"):
                raise _refuse(name, f"it uses {used}, which is not defined here")
            continue
        value = namespace[used]
        if _is_given(used, value, together):
            continue
        home = _session_module(value)
        if home:
            if matters:
                mend = "define it in a cell, and save it too"
                raise _refuse(name, f"it uses {used} of {home}, a file that later sessions do not import; {mend}")
            continue
        line = _line_for(used, value)
        if line:
            need.lines.append(line)
            need.told.append(line if line.startswith(("import ", "from ")) else f"{used} as it is now")
        elif getattr(value, "__module__", None) == "__main__" and hasattr(value, "__name__") and callable(value):
            unsaved.append(used)
        elif matters:
            kind = type(value).__name__
            raise _refuse(name, f"it uses {used} ({kind}), a variable of this session; pass it as an argument")
    if unsaved:
        both = ", ".join([*unsaved, name])
        raise _refuse(name, f"it uses {', '.join(unsaved)}, not saved yet; save them together: save_tool({both})")
    need.lines.sort(key=lambda line: (not line.startswith(("import ", "from ")), line))
    return need


def _is_given(used: str, value: object, together: "set[str]") -> bool:
    """It will be there in any session."""
    if used in together or type(value) is saved_tools.Stub or used.startswith("mcp_"):
        return True
    if environment.offered().get(used) is value and value is not None:
        return True
    tool = saved_tools.entries().get(used)
    return tool is not None and (getattr(value, "__module__", None) in (saved_tools.MODULE, "__main__"))


def _session_module(value: "Any") -> str:
    """The name of the module, of those that code wrote into files, that it is or comes from."""
    name = str(getattr(value, "__name__" if isinstance(value, type(sys)) else "__module__", ""))
    file = getattr(sys.modules.get(name), "__file__", None)
    return name if name != "__main__" and isinstance(file, str) and is_user_code(file) else ""


def _line_for(used: str, value: "Any") -> str:
    """The line that brings the same into another session; empty where there is none."""
    if isinstance(value, type(sys)):
        full = value.__name__
        if sys.modules.get(full) is not value or getattr(value, "__spec__", None) is None:
            return ""
        return f"import {full}" if full == used else f"import {full} as {used}"
    module, own = str(getattr(value, "__module__", "")), str(getattr(value, "__name__", ""))
    elsewhere = module not in ("", "__main__", saved_tools.MODULE)
    if elsewhere and own and getattr(sys.modules.get(module), own, None) is value:
        return f"from {module} import {own}" if own == used else f"from {module} import {own} as {used}"
    if _is_constant(value, 10):
        text = repr(value)
        if len(text) <= CONSTANT_CHARACTERS:
            return f"{used} = {text}"
    return ""


def _is_constant(value: object, depth: int) -> bool:
    if type(value) in _PLAIN:
        return value == value and value not in (float("inf"), float("-inf"))
    if not depth:
        return False
    if type(value) in (tuple, list, set) and value:
        return all(_is_constant(item, depth - 1) for item in value)  # type: ignore[attr-defined]
    if type(value) is dict:
        return all(_is_constant(item, depth - 1) for pair in value.items() for item in pair)
    return type(value) in (tuple, list)


def _names_used(source: str) -> "dict[str, bool]":
    """Names that a definition takes from around it, and whether it cannot do without."""
    symtable = load("symtable")
    used: dict[str, bool] = {}
    top = symtable.symtable(source, "<tool>", "exec")
    tables = [(top, True)]
    while tables:
        table, matters = tables.pop()
        for symbol in table.get_symbols():
            outside = symbol.is_global() or table is top
            if symbol.is_referenced() and outside and not (table is top and symbol.is_assigned()):
                used[symbol.get_name()] = used.get(symbol.get_name(), False) or matters
        # Annotations are looked at by nobody until somebody asks for them.
        for child in table.get_children():
            kind = str(getattr(child.get_type(), "value", child.get_type()))
            tables.append((child, matters and "annotation" not in kind))
    return used
