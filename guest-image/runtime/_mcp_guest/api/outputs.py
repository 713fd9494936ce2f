"""`runtime.last_output` and `runtime.outputs`: what earlier runs printed, by lines, without printing it again."""

from _mcp_guest.worker.channel import let_go
from _mcp_guest.api.errors import MCPError
from _mcp_guest.lazy import load
from _mcp_guest.init.record import Index, Span

__all__ = ["Lines", "Output", "Outputs", "Stream", "holder", "last", "outputs"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SHOWN_LINES = 200
SHOWN_CHARACTERS = 300


class Lines(list):  # type: ignore[type-arg]
    """Some lines of an output, without their ends: a list of text that shows itself as text. `.numbers` has theirs."""

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
    """One stream of one run: `[60:120]` and `.lines(60, 120)` are lines, `.text` is all, `len` counts lines."""

    def __init__(self, cell: int, name: str, span: Span) -> None:
        self.cell, self.name = cell, name
        self._span = span
        self._lines: list[str] | None = None

    @property
    def size(self) -> int:
        """Bytes that the run wrote."""
        return self._span.size

    @property
    def kept(self) -> int:
        """How many of them are there still: the last ones."""
        return self._span.end - self._first

    @property
    def _first(self) -> int:
        return min(self._span.end, max(self._span.start, self._span.ring.oldest()))

    @property
    def text(self) -> str:
        """All that is kept. Bytes that are no UTF-8 are escapes."""
        first = self._first
        if first >= self._span.end:
            if self._span.size:
                raise LookupError(f"{self.name} of cell {self.cell} is not kept any more")
            return ""
        data = self._span.ring.read(first, self._span.end)
        if self._first > first:
            raise LookupError(f"{self.name} of cell {self.cell} was just written over")
        if first > self._span.start:
            # From the first whole line on, where there is one.
            data = data.partition(b"\n")[2] or data
        return data.decode("utf-8", "backslashreplace")

    def _all(self) -> "tuple[int, list[str]]":
        """The kept lines, and the number of the first of them."""
        if self._lines is None:
            text = self.text
            self._lines = text.removesuffix("\n").split("\n") if text else []
        return len(self) - len(self._lines), self._lines

    def __len__(self) -> int:
        """Lines that the run wrote."""
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
        return str(self._pick(range(number, number + 1))[0])

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
        """Lines `start` up to but not including `stop`, counted from 0."""
        return self._pick(range(len(self))[start:stop])

    def head(self, count: int = 10) -> Lines:
        """The first lines."""
        return self.lines(0, count)

    def tail(self, count: int = 10) -> Lines:
        """The last lines."""
        return self.lines(max(0, len(self) - count))

    def grep(self, pattern: str, flags: int = 0) -> Lines:
        """The lines in which a regular expression is found, with their numbers."""
        search = load("re").compile(pattern, flags).search
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
    """What one run printed: its stdout, and `.stderr`."""

    def __init__(self, cell: int, spans: "tuple[Span, Span]") -> None:
        super().__init__(cell, "stdout", spans[0])
        self.stderr = Stream(cell, "stderr", spans[1])

    def __repr__(self) -> str:
        text = super().__repr__()
        return f"{text[:-1]}; stderr: {len(self.stderr):,} lines>" if self.stderr.size else text


class Outputs(dict):  # type: ignore[type-arg]
    """The outputs that are kept, by number of their cell."""

    def __missing__(self, cell: object) -> None:
        kept = f"there are those of cells {min(self)} to {max(self)}" if self else "there are none"
        raise KeyError(f"no output of cell {cell!r} is kept; {kept}")


class _Holder:
    """Where the worker puts what its process can read."""

    index: "Index | None" = None
    cell = 0

    def forget(self) -> None:
        """In a forked child: lets go of the descriptor."""
        if self.index is not None:
            let_go(self.index.descriptor)
            self.index = None


holder = _Holder()


def outputs() -> Outputs:
    """Of all cells that are kept."""
    index = holder.index
    if index is None:
        raise MCPError("outputs of earlier runs are not kept here")
    try:
        runs = index.runs()
    except OSError:
        raise MCPError("outputs of earlier runs are gone: the code has closed files that are not its own") from None
    found = {cell: Output(cell, spans) for cell, spans in runs.items() if cell != holder.cell}
    return Outputs((cell, output) for cell, output in found.items() if output.kept or output.stderr.kept)


def last() -> Output:
    """The output of the last run that printed anything, this one not counted."""
    found = outputs()
    if not found:
        raise MCPError("no earlier run of this session has printed anything")
    latest: Output = found[max(found)]
    return latest


def _shorten(line: str) -> str:
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]}... ({len(line):,} characters)"
