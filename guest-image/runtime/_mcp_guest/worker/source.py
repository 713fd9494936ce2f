"""The text of cells: kept for tracebacks and `inspect`, and compiled so that the last expression's
value is stored."""

import _ast
import _io
import sys

from _mcp_guest.lazy import lazy

__all__ = ["RESULT", "Location", "compile_cell", "is_user_code", "line_of", "names_in", "remember"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import linecache
    from types import CodeType
    from typing import Any
else:
    linecache = lazy("linecache")

RESULT = "__mcp_result__"
ONLY_AST, TOP_LEVEL_AWAIT = 0x400, 0x2000
# The flags of all `from __future__` features, which stay on for later cells, as in the REPL.
FUTURE_FLAGS = 0x1FE0000
# Together the sources may have this many characters; each counts for some more than its text.
KEPT_CHARACTERS = 32 << 20
PER_SOURCE = 1000
LIBRARY = str(sys.modules["encodings"].__file__).rpartition("/encodings/")[0] + "/"
RUNTIME = __file__.rpartition("/_mcp_guest/")[0] + "/"

_future = 0
_sources: dict[str, int] = {}
_kept_characters = 0


class Location:
    """A location in running code that does not keep its frame alive."""

    __slots__ = ("code", "instruction", "line")

    def __init__(self, code: "CodeType", instruction: int, line: int | None) -> None:
        self.code, self.instruction, self.line = code, instruction, line or code.co_firstlineno

    def __str__(self) -> str:
        call = self._call()
        return f"{label(self.code.co_filename)}, line {self.line}{f' ({call})' if call else ''}"

    def _call(self) -> str:
        """The function that is called there, as it is written: `time.sleep`."""
        positions = list(self.code.co_positions())
        index = self.instruction // 2
        if not 0 <= index < len(positions):
            return ""
        line, end_line, column, end_column = positions[index]
        if line is None or column is None or end_column is None or line != end_line:
            return ""
        text = line_of(self.code.co_filename, line).encode()[column:end_column]
        if len(text) > 500:
            return ""
        try:
            node = compile(text, "", "eval", ONLY_AST | TOP_LEVEL_AWAIT).body
        except (SyntaxError, ValueError):
            return ""
        if isinstance(node, _ast.Await):
            node = node.value
        if not isinstance(node, _ast.Call):
            return ""
        name = text[node.func.col_offset : node.func.end_col_offset].decode("utf-8", "replace")
        return name if len(name) <= 60 else ""


def label(filename: str) -> str:
    """The name of a file in messages: `<cell 4>` is `cell 4`, `<tool total>` is `tool total`."""
    return filename[1:-1] if filename.startswith(("<cell ", "<tool ")) else filename


def is_user_code(filename: str) -> bool:
    """Whether the file is a cell or a user's module: not the standard library, a package or this
    runtime."""
    if filename.startswith("<"):
        return not filename.startswith("<frozen ")
    return not (
        filename.startswith((LIBRARY, RUNTIME)) or "/site-packages/" in filename or "/dist-packages/" in filename
    )


def line_of(filename: str, number: int, namespace: "dict[str, object] | None" = None) -> str:
    """A source line without its line end; empty where there is none."""
    return linecache.getline(filename, number, namespace).rstrip("\n")


def remember(filename: str, code: str) -> list[str]:
    """Adds the text to `linecache`; returns its lines. The oldest texts are dropped when all become
    too large."""
    global _kept_characters
    lines = _io.StringIO(code, newline=None).readlines()
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    cache: dict[str, Any] = linecache.cache
    _kept_characters += len(code) + PER_SOURCE - _sources.pop(filename, 0)
    _sources[filename] = len(code) + PER_SOURCE
    cache[filename] = (len(code), None, lines, filename)
    while len(_sources) > 1 and _kept_characters > KEPT_CHARACTERS:
        oldest = next(iter(_sources))
        _kept_characters -= _sources.pop(oldest)
        cache.pop(oldest, None)
    return lines


def names_in(code: "CodeType") -> "set[str]":
    """Global names that the code, or a function in it, may use."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            names |= names_in(constant)
    return names


def compile_cell(code: str, filename: str) -> "CodeType":
    """Code that assigns the value of a bare last expression to the name `RESULT`, unless a `;`
    follows it."""
    global _future
    code = code.removeprefix("\ufeff")
    _check_text(code, filename)
    lines = remember(filename, code)
    flags = TOP_LEVEL_AWAIT | _future
    module = compile(code, filename, "exec", ONLY_AST | flags, dont_inherit=True)
    assert isinstance(module, _ast.Module)
    last = module.body[-1] if module.body else None
    if isinstance(last, _ast.Expr) and not _is_silenced(last, lines):
        value = last.value
        name = _ast.Name(RESULT, _ast.Store())
        module.body[-1] = assignment = _ast.Assign([name], value)
        for node in (name, assignment):
            node.lineno, node.col_offset = value.lineno, value.col_offset
            node.end_lineno, node.end_col_offset = value.end_lineno, value.end_col_offset
    compiled: CodeType = compile(module, filename, "exec", flags, dont_inherit=True)
    _future |= compiled.co_flags & FUTURE_FLAGS
    return compiled


def _is_silenced(last: _ast.Expr, lines: list[str]) -> bool:
    line, column = last.end_lineno or 0, last.end_col_offset or 0
    if not 0 < line <= len(lines):
        return False
    rest = lines[line - 1].encode()[column:] + "".join(lines[line : line + 10]).encode()
    return rest.lstrip(b" \t\f\\\n").startswith(b";")


def _check_text(code: str, filename: str) -> None:
    """Raises SyntaxError for text that Python rejects without a line, or with another exception."""
    try:
        index = code.find("\0")
        code.encode()
    except UnicodeEncodeError as error:
        index = error.start if index < 0 else min(index, error.start)
    if index >= 0:
        line = code.count("\n", 0, index) + 1
        what = "a null character" if code[index] == "\0" else f"a lone surrogate (U+{ord(code[index]):04X})"
        raise SyntaxError(f"{what} in the code", (filename, line, index - code.rfind("\n", 0, index), None))
