"""`runtime.last_output` and `runtime.outputs`: the output of earlier runs, by lines, without
printing it again."""

from _mcp_guest.api.errors import MCPError
from _mcp_guest.init.record import Span
from _mcp_guest.lazy import lazy
from _mcp_guest.session import session

__all__ = ["Lines", "Output", "Outputs", "Stream", "last", "outputs"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    import re
else:
    re = lazy("re")

SHOWN_LINES = 200
SHOWN_CHARACTERS = 300


class Lines(list[str]):
    """Lines of an output, without their line ends; prints as text. `.numbers` are the line numbers,
    after `grep`."""

    numbers: "list[int]"

    def __str__(self) -> str:
        return "\n".join(self)

    def __repr__(self) -> str:
        numbered = getattr(self, "numbers", None)
        shown = [
            line if numbered is None else f"{numbered[index]}: {_shorten(line)}"
            for index, line in enumerate(self[:SHOWN_LINES])
        ]
        if len(self) > SHOWN_LINES:
            shown.append(f"... {len(self) - SHOWN_LINES:,} more lines")
        return "\n".join(shown) or "(no lines)"


class Stream:
    """One stream of one run: `[60:120]` and `.lines(60, 120)` are lines, `.text` is all, `len`
    counts lines."""

    def __init__(self, cell: int, name: str, span: Span) -> None:
        self.cell, self.name = cell, name
        self._span = span
        self._lines: list[str] | None = None

    @property
    def size(self) -> int:
        """The number of bytes that the run wrote."""
        return self._span.size

    @property
    def kept(self) -> int:
        """How many of these bytes, the last ones, are still there."""
        return self._span.end - self._first

    @property
    def _first(self) -> int:
        return min(self._span.end, max(self._span.start, self._span.ring.oldest()))

    @property
    def text(self) -> str:
        """Everything that is still there. Bytes that are not UTF-8 become escapes."""
        first = self._first
        if first >= self._span.end:
            if self._span.size:
                raise LookupError(f"{self.name} of cell {self.cell} is not kept any more")
            return ""
        data = self._span.ring.read(first, self._span.end)
        if self._first > first:
            raise LookupError(f"{self.name} of cell {self.cell} was just written over")
        if first > self._span.start:
            # From the first complete line on, if there is one.
            data = data.partition(b"\n")[2] or data
        return data.decode("utf-8", "backslashreplace")

    def _all(self) -> "tuple[int, list[str]]":
        """The number of the first line that is still there, and the lines from there on."""
        if self._lines is None:
            text = self.text
            self._lines = text.removesuffix("\n").split("\n") if text else []
        return len(self) - len(self._lines), self._lines

    def __len__(self) -> int:
        """The number of lines that the run wrote."""
        span = self._span
        if not span.size:
            return 0
        last = span.ring.read(span.end - 1, span.end) if self.kept else b"\n"
        return span.lines + (last != b"\n")

    def __getitem__(self, index: "int | slice") -> "str | Lines":
        if isinstance(index, slice):
            numbers = range(len(self))[index]
            return self._pick(numbers)
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(f"{self.name} of cell {self.cell} has {len(self):,} lines, not a line {index:,}")
        return self._pick(range(number, number + 1))[0]

    def _pick(self, numbers: range) -> Lines:
        first, lines = self._all()
        wanted = sorted((numbers[0], numbers[-1])) if numbers else [first]
        if wanted[0] < first:
            raise LookupError(
                f"line {wanted[0]:,} of {self.name} of cell {self.cell} is not kept any more;"
                f" lines {first:,} to {len(self) - 1:,} are"
            )
        return Lines(lines[number - first] for number in numbers)

    def __iter__(self) -> "Iterator[str]":
        return iter(self._pick(range(self._all()[0], len(self))))

    def lines(self, start: int = 0, stop: "int | None" = None) -> Lines:
        """Lines from `start` up to but not including `stop`, counted from 0."""
        return self._pick(range(len(self))[start:stop])

    def head(self, count: int = 10) -> Lines:
        """The first lines."""
        return self.lines(0, count)

    def tail(self, count: int = 10) -> Lines:
        """The last lines."""
        return self.lines(max(0, len(self) - count))

    def grep(self, pattern: str, flags: int = 0) -> Lines:
        """The lines that match a regular expression, with their numbers."""
        search = re.compile(pattern, flags).search
        first, lines = self._all()
        numbers = [index for index, line in enumerate(lines) if search(line)]
        found = Lines(lines[index] for index in numbers)
        found.numbers = [first + index for index in numbers]
        return found

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        lost = self.size - self.kept
        kept = f", the last {self.kept:,} bytes are kept" if lost else ""
        return f"<{self.name} of cell {self.cell}: {len(self):,} lines, {self.size:,} bytes{kept}>"


class Output(Stream):
    """The output of one run: its stdout, and `.stderr`."""

    def __init__(self, cell: int, spans: "tuple[Span, Span]") -> None:
        super().__init__(cell, "stdout", spans[0])
        self.stderr = Stream(cell, "stderr", spans[1])

    def __repr__(self) -> str:
        text = super().__repr__()
        return f"{text[:-1]}; stderr: {len(self.stderr):,} lines>" if self.stderr.size else text


class Outputs(dict[int, Output]):
    """The outputs that are still there, by number of their cell."""

    def __missing__(self, cell: object) -> Output:
        kept = f"there are those of cells {min(self)} to {max(self)}" if self else "there are none"
        raise KeyError(f"no output of cell {cell!r} is kept; {kept}")


def outputs() -> Outputs:
    """The outputs of all earlier runs that are still there."""
    index = session.output_index
    if index is None:
        raise MCPError("outputs of earlier runs are not kept here")
    try:
        runs = index.runs()
    except OSError:
        raise MCPError("outputs of earlier runs are gone: the code has closed files that are not its own") from None
    found = {cell: Output(cell, spans) for cell, spans in runs.items() if cell != session.cell}
    return Outputs((cell, output) for cell, output in found.items() if output.kept or output.stderr.kept)


def last() -> Output:
    """The output of the latest earlier run that printed anything."""
    found = outputs()
    if not found:
        raise MCPError("no earlier run of this session has printed anything")
    return found[max(found)]


def _shorten(line: str) -> str:
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]}... ({len(line):,} characters)"
