"""How the value of a bare last expression is shown: by its `repr`, or, where that is long, by what it is, its size, its
first and its last items. Nothing is imported for that, and no large text is made of a large value."""

__all__ = ["cut_text", "is_large", "keep", "preview", "short", "text_of"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FIRST, LAST = 3, 2
ITEM_CHARACTERS = 400
SHOWN_KEYS = 12
LOOKED_AT = 1000
MOST_KEPT = 16
DEPTH = 40
MOST_BITS = 14_000


def text_of(value: object, limit: int, name: "Any") -> str:
    """What is shown of a value in about `limit` characters. A preview asks `name()` what the value is kept as."""
    if is_large(value, limit):
        return preview(value, limit, name())
    text = repr(value)
    return text if len(text) <= limit else cut_text(text, f"{_kind(value)}, its repr", limit, name())


def is_large(value: object, limit: int) -> bool:
    """Whether the `repr` of builtin containers and texts is longer than that, found without making it."""
    return _measure(value, limit, 0) > limit


def _measure(value: object, limit: int, depth: int) -> int:
    kind = _base(value)
    if kind in (str, bytes, bytearray):
        return len(value)  # type: ignore[arg-type]
    if kind in (list, tuple, set, frozenset, dict):
        size = 2 * len(value)  # type: ignore[arg-type]
        if size > limit or depth > DEPTH:
            return size
        items: Any = value
        if kind is dict:
            items = (part for pair in value.items() for part in pair)  # type: ignore[attr-defined]
        for item in items:
            size += _measure(item, limit - size, depth + 1)
            if size > limit:
                break
        return size
    if kind is int:
        # Python does not write out integers beyond 4300 digits.
        bits = int.bit_length(value)  # type: ignore[arg-type]
        return bits // 4 if bits < MOST_BITS else max(bits, limit + 1)
    return 1


def preview(value: object, limit: int, name: str) -> str:
    """Of a value that `is_large`."""
    kind = _base(value)
    if kind is str:
        assert isinstance(value, str)
        lines = value.count("\n") + 1
        what = f"str of {len(value):,} characters" + (f", {lines:,} lines" if lines > 1 else "")
        return _cut_sequence(value, what, limit, name)
    if kind in (bytes, bytearray):
        return _cut_sequence(value, f"{kind.__name__} of {len(value):,} bytes", limit, name)  # type: ignore[arg-type]
    if kind is int:
        return f"int of {int.bit_length(value):,} bits (kept as {name})"  # type: ignore[arg-type]
    if kind is dict:
        assert isinstance(value, dict)
        return _of_dict(value, limit, name)
    return _of_items(value, limit, name)


def keep(namespace: "dict[str, Any]", value: object, cell: int) -> str:
    """The name that a value is bound to: one that it has, or `_r7` in cell 7. The last few of those stay."""
    for known, bound in namespace.items():
        if bound is value and known.isidentifier() and not known.startswith("_"):
            return known
    name = f"_r{cell}"
    namespace[name] = value
    numbers = sorted(int(known[2:]) for known in namespace if known.startswith("_r") and known[2:].isdecimal())
    for number in numbers[:-MOST_KEPT]:
        namespace.pop(f"_r{number}", None)
    return name


def short(value: object, limit: int = ITEM_CHARACTERS) -> str:
    """A value in one line."""
    try:
        text = preview(value, limit // 2, "").replace(" (kept as )", "") if is_large(value, limit) else repr(value)
    except Exception as error:
        return f"<{_kind(value)} whose repr raised {type(error).__name__}>"
    text = text.replace("\n", " ")
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _of_items(value: "Any", limit: int, name: str) -> str:
    size = len(value)
    items = value if isinstance(value, (list, tuple)) else [item for item, _ in zip(value, range(FIRST), strict=False)]
    sample = items[:LOOKED_AT]
    kinds = list(dict.fromkeys(_kind(item) for item in sample))
    of = "items" if not kinds else kinds[0] if len(kinds) == 1 and len(items) == len(value) else "mixed items"
    if len(items) != size and len(kinds) == 1:
        of = kinds[0]
    head = f"{_base(value).__name__} of {size:,} {of}{_keys(sample)} (kept as {name})"
    room = max(40, min(ITEM_CHARACTERS, limit // (FIRST + LAST)))
    if len(items) != size:
        return "\n".join([head, *(short(item, room) for item in items), "..."])
    first = [f"[{index}] {short(item, room)}" for index, item in enumerate(items[:FIRST])]
    rest = range(max(FIRST, size - LAST), size)
    gap = ["..."] if rest and rest[0] > FIRST else []
    return "\n".join([head, *first, *gap, *(f"[{index}] {short(items[index], room)}" for index in rest)])


def _of_dict(value: "dict[Any, Any]", limit: int, name: str) -> str:
    size = len(value)
    room = max(40, min(ITEM_CHARACTERS, limit // (FIRST + LAST)))
    kinds = list(dict.fromkeys(_kind(item) for _, item in zip(range(LOOKED_AT), value.values(), strict=False)))
    of = f" of {kinds[0]}" if len(kinds) == 1 else ""
    head = f"dict of {size:,} {'item' if size == 1 else 'items'}{of} (kept as {name})"
    shown = [key for key, _ in zip(value, range(SHOWN_KEYS), strict=False)]
    lines = [f"{short(key, room // 2)}: {short(value[key], room)}" for key in shown]
    gap = ["..."] if size > SHOWN_KEYS else []
    last = [] if size <= SHOWN_KEYS else [next(reversed(value))]
    return "\n".join([head, *lines, *gap, *(f"{short(key, room // 2)}: {short(value[key], room)}" for key in last)])


def _keys(items: "Any") -> str:
    """The keys of a list of dicts: all keys of the first few, in their order."""
    if not items or any(_base(item) is not dict for item in items):
        return ""
    keys = list(dict.fromkeys(key for item in items for key in item))
    names = [key if isinstance(key, str) and key.isidentifier() else short(key, 40) for key in keys[:SHOWN_KEYS]]
    shown = ", ".join(names)
    more = f", ... ({len(keys)} in all)" if len(keys) > SHOWN_KEYS else ""
    return f", keys: {shown}{more}"


def _cut_sequence(value: "str | bytes | bytearray", what: str, limit: int, name: str) -> str:
    head, tail = limit // 3, limit // 6
    gap = len(value) - head - tail
    unit = "characters" if isinstance(value, str) else "bytes"
    missing = f"... {gap:,} {unit} left out; {name}[{head}:] ..."
    return f"{what} (kept as {name})\n{value[:head]!r}\n{missing}\n{value[len(value) - tail :]!r}"


def cut_text(text: str, what: str, limit: int, name: str) -> str:
    """The head and the tail of a text that stands for a value."""
    head, tail = limit * 2 // 3, limit // 4
    gap = len(text) - head - tail
    what = f"{what} of {len(text):,} characters (kept as {name})"
    return f"{what}\n{text[:head]}\n... {gap:,} characters left out ...\n{text[len(text) - tail :]}"


def _base(value: object) -> type:
    """The builtin whose `repr` the value has: results of tools are lists and dicts that know more."""
    kind = type(value)
    for base in (str, bytes, bytearray, list, tuple, set, frozenset, dict, int):
        if isinstance(value, base):
            return base if kind.__repr__ is base.__repr__ else kind
    return kind


def _kind(value: object) -> str:
    kind = _base(value)
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"
