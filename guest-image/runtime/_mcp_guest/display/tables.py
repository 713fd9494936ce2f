"""Data frames as Markdown: the first and last rows and columns. Works with pandas and polars
through what they have in common, and imports neither."""

__all__ = ["markdown"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FIRST_ROWS, LAST_ROWS = 15, 5
FIRST_COLUMNS, LAST_COLUMNS = 14, 4
CELL_CHARACTERS = 80


def markdown(frame: "Any") -> str:
    """A table and, where rows or columns are left out, its size."""
    height, width = frame.shape
    rows = _some(height, FIRST_ROWS, LAST_ROWS)
    columns = _some(width, FIRST_COLUMNS, LAST_COLUMNS)
    has_index = hasattr(frame, "iloc")
    names = list(frame.columns)
    head = [_cell(names[at]) if at is not None else "..." for at in columns]
    lines = [_line(([""] if has_index else []) + head)]
    lines.append(_line(["---"] * (len(head) + has_index)))
    for row in rows:
        label = [] if not has_index else ["..." if row is None else _cell(frame.index[row])]
        lines.append(_line(label + ["..." if None in (row, at) else _cell(_value(frame, row, at)) for at in columns]))
    if None in rows or None in columns:
        lines.append(f"\n{height:,} rows, {width:,} columns")
    return "\n".join(lines)


def _some(count: int, first: int, last: int) -> "list[int | None]":
    """All indices, or the first and the last with a gap between."""
    if count <= first + last + 1:
        return list(range(count))
    return [*range(first), None, *range(count - last, count)]


def _value(frame: "Any", row: "int | None", column: "int | None") -> object:
    # By position: names may occur twice, and may be anything.
    return frame.iloc[row, column] if hasattr(frame, "iloc") else frame[row, column]


def _cell(value: object) -> str:
    try:
        text = str(value)
    except Exception as error:
        text = f"<{type(error).__name__}>"
    if len(text) > CELL_CHARACTERS:
        text = f"{text[: CELL_CHARACTERS - 3]}..."
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\r", " ").replace("\n", " ")


def _line(cells: "list[str]") -> str:
    return f"| {' | '.join(cells)} |"
