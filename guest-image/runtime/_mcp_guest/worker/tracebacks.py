"""Tracebacks for the reader of the answer: user frames only, with causes, notes and groups, bounded
in size."""

from _collections import deque

from _mcp_guest.lazy import lazy
from _mcp_guest.worker.source import is_user_code, label, line_of

__all__ = ["describe"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    import traceback
    from types import TracebackType
else:
    traceback = lazy("traceback")

FIRST_FRAMES, LAST_FRAMES = 15, 25
CHAIN_ENDS = 5
GROUP_WIDTH, GROUP_DEPTH = 15, 8
LINE_CHARACTERS = 300
MESSAGE_CHARACTERS = 1 << 16
TRACEBACK_CHARACTERS = 1 << 18
CAUSE = "\nThe above exception was the direct cause of the following exception:\n"
CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n"
SUGGESTED = (SyntaxError, NameError, AttributeError, ImportError)


def describe(error: BaseException) -> dict[str, str]:
    """The `error` of the frame: type, message and traceback."""
    text = "\n".join(_brief(error) or _with_causes(error, 0))
    return {
        "type": _type_name(error),
        "message": _middle_out(_message(error), MESSAGE_CHARACTERS),
        "traceback": _middle_out(text, TRACEBACK_CHARACTERS),
    }


def _brief(error: BaseException) -> "list[str]":
    """The message and one line, for exceptions that need no more; empty for others."""
    if getattr(error, "_mcp_brief", None) is not True or error.__cause__ is not None or error.__context__ is not None:
        return []
    frames = list(_collapsed(error.__traceback__, brief=True))
    return [*_last_lines(error), *frames] if len(frames) == 1 else []


def _with_causes(error: BaseException, depth: int) -> "list[str]":
    chain: list[tuple[BaseException, str]] = []
    seen = set()
    link: BaseException | None = error
    why = ""
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        chain.append((link, why))
        if link.__cause__ is not None:
            link, why = link.__cause__, CAUSE
        else:
            link, why = (None if link.__suppress_context__ else link.__context__), CONTEXT
    lines: list[str] = []
    for index, (exception, after) in enumerate(reversed(chain)):
        if CHAIN_ENDS <= index < len(chain) - CHAIN_ENDS:
            if index == CHAIN_ENDS:
                lines.append(f"... {len(chain) - 2 * CHAIN_ENDS} exceptions left out ...\n")
            continue
        lines += _one(exception, depth)
        if after:
            lines += after.split("\n")
    return lines


def _one(error: BaseException, depth: int) -> "list[str]":
    frames = _frames(error.__traceback__)
    if isinstance(error, BaseExceptionGroup):
        return _group(error, frames, depth)
    return (["Traceback (most recent call last):", *frames] if frames else []) + _last_lines(error)


def _group(group: "BaseExceptionGroup[BaseException]", frames: "list[str]", depth: int) -> "list[str]":
    head = ["Exception Group Traceback (most recent call last):", *frames] if frames else []
    lines = [f"{'  | ' if index else '  + '}{line}" for index, line in enumerate(head + _last_lines(group))]
    if depth >= GROUP_DEPTH:
        return [*lines, f"  | ... ({len(group.exceptions)} exceptions inside left out)"]
    shown = group.exceptions[:GROUP_WIDTH]
    for number, error in enumerate(shown, 1):
        lines.append(f"  {'+-' if number == 1 else '  '}+---------------- {number} ----------------")
        lines += [f"    | {line}" for line in _with_causes(error, depth + 1)]
    missing = len(group.exceptions) - len(shown)
    if missing:
        lines += ["    +---------------- ... ----------------", f"    | and {missing} more exceptions"]
    return [*lines, "    +------------------------------------"]


def _frames(trace: "TracebackType | None") -> "list[str]":
    """Two lines per user frame; repeated frames and the middle of deep recursion become a count."""
    first: list[str] = []
    last: deque[str] = deque(maxlen=LAST_FRAMES)
    left_out = 0
    for entry in _collapsed(trace):
        if len(first) < FIRST_FRAMES:
            first.append(entry)
            continue
        left_out += len(last) == LAST_FRAMES
        last.append(entry)
    gap = [f"  ... {left_out} frames left out ..."] if left_out else []
    return "\n".join([*first, *gap, *last]).split("\n") if first else []


def _collapsed(trace: "TracebackType | None", *, brief: bool = False) -> "Iterator[str]":
    previous, repeated, entry = None, 0, ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if is_user_code(code.co_filename):
            line = trace.tb_lineno or code.co_firstlineno
            here = (code, line)
            if here == previous:
                repeated += 1
            else:
                if repeated > 2:
                    yield _repeated(repeated - 2)
                previous, repeated = here, 0
                name = "" if brief else code.co_qualname
                entry = _entry(code.co_filename, line, name, trace.tb_frame.f_globals)
            if repeated <= 2:
                yield entry
        trace = trace.tb_next
    if repeated > 2:
        yield _repeated(repeated - 2)


def _repeated(count: int) -> str:
    return f"  [Previous line repeated {count} more time{'s' if count > 1 else ''}]"


def _entry(filename: str, line: int, name: str, namespace: "dict[str, object]") -> str:
    source = line_of(filename, line, namespace).strip()
    if len(source) > LINE_CHARACTERS:
        source = source[:LINE_CHARACTERS] + "..."
    if not name:
        return f"  {label(filename)}, line {line}" + (f": {source}" if source else "")
    return f"  {label(filename)}, line {line}, in {name}" + (f"\n    {source}" if source else "")


def _last_lines(error: BaseException) -> "list[str]":
    """The line `Type: message`; before it the location of a syntax error, after it the notes."""
    if isinstance(error, SUGGESTED) and getattr(error, "_mcp_brief", None) is not True:
        text = "".join(_by_traceback_module(error)).rstrip("\n")
        return text.split("\n")
    message = _middle_out(_message(error), MESSAGE_CHARACTERS)
    lines = [f"{_type_name(error)}: {message}" if message else _type_name(error)]
    notes = getattr(error, "__notes__", None)
    if isinstance(notes, (list, tuple)):
        lines += [_middle_out(_said(note, "note"), MESSAGE_CHARACTERS) for note in notes[:100]]
    return "\n".join(lines).split("\n")


def _by_traceback_module(error: BaseException) -> "list[str]":
    """By the `traceback` module, for carets and suggestions. Causes are detached meanwhile: it
    would follow them."""
    links = error.__cause__, error.__context__, error.__suppress_context__
    error.__cause__ = error.__context__ = None
    try:
        formatter = traceback.TracebackException(type(error), error, error.__traceback__, limit=0)
        lines = list(formatter.format_exception_only())
    finally:
        error.__cause__, error.__context__, error.__suppress_context__ = links
    if isinstance(error, SyntaxError) and lines and lines[0].startswith('  File "'):
        filename, _, place = lines[0][8:].partition('", ')
        lines[0] = f"  {label(filename)}, {place}"
        if lines[1].startswith("    "):
            lines[1:3] = _around_mark(lines[1:3])
    return lines


def _around_mark(lines: "list[str]") -> "list[str]":
    """The part around the carets, of a long source line and of the line with carets below it."""
    if len(lines[0]) <= LINE_CHARACTERS:
        return lines
    source, mark = lines[0].rstrip("\n"), lines[1] if len(lines) > 1 else ""
    start = max(0, mark.find("^") - LINE_CHARACTERS // 2)
    end = start + LINE_CHARACTERS
    before = "    ..." if start else ""
    shown = [f"{before}{source[start:end]}{'...' if end < len(source) else ''}\n"]
    is_mark = bool(mark.strip()) and not mark.strip(" ^\n")
    return [*shown, f"{' ' * len(before)}{mark[start:end].rstrip()}\n" if is_mark else mark[:end]]


def _type_name(error: BaseException) -> str:
    kind = type(error)
    module = kind.__module__
    if module in ("builtins", "__main__", "mcp.runtime") or not isinstance(module, str):
        return kind.__qualname__
    return f"{module}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    return _said(error, "exception")


def _said(value: object, what: str) -> str:
    """The text of an exception or note. That is user code: whatever it raises, the rest is still
    shown."""
    try:
        return str(value)
    except KeyboardInterrupt:
        raise  # The run was interrupted.
    except BaseException:
        return f"<{what} str() failed>"


def _middle_out(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... {len(text) - 2 * half:,} characters left out ...\n{text[-half:]}"
