"""The text of a value: its `repr`, or, where that is long, its type, its size, and its first and
last items.

Nothing is imported for this, and a large value never becomes a large text.
"""

__all__ = ["bind_name", "cut_text", "is_large", "preview", "short", "text_of"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FIRST, LAST = 3, 2
# How many levels of nested items are shown.
NESTED = 2
ITEM_CHARACTERS = 400
SHOWN_KEYS = 12
KEY_CHARACTERS = 40
LOOKED_AT = 1000
MOST_KEPT = 16
DEPTH = 40
MOST_BITS = 14_000


def text_of(value: object, limit: int, name: "Callable[[], str]") -> str:
    """The text of a value in about `limit` characters. A preview says by `name()` which variable
    has all of it."""
    try:
        if is_large(value, limit):
            return preview(value, limit, name())
    except Exception:
        pass  # A subclass that behaves in another way: its repr is used.
    text = repr(value)
    return text if len(text) <= limit else cut_text(text, f"{_kind(value)}, its repr", limit, name())


def is_large(value: object, limit: int) -> bool:
    """Whether the `repr` of a builtin container or text exceeds the limit; found without making
    it."""
    return _measure(value, limit, 0) > limit


def _measure(value: "Any", limit: int, depth: int) -> int:
    kind = _base(value)
    if kind in (str, bytes, bytearray):
        return len(value)
    if kind in (list, tuple, set, frozenset, dict):
        size = 2 * len(value)
        if size > limit or depth > DEPTH:
            return size
        for item in value if kind is not dict else (part for pair in value.items() for part in pair):
            size += _measure(item, limit - size, depth + 1)
            if size > limit:
                break
        return size
    if kind is int:
        # Python does not write out integers beyond 4300 digits.
        bits = int.bit_length(value)
        return bits // 4 if bits < MOST_BITS else max(bits, limit + 1)
    return 1


def preview(value: "Any", limit: int, name: str, depth: int = 0) -> str:
    """The preview of a value that `is_large`; `depth` counts the values around it."""
    kind = _base(value)
    if kind is str:
        lines = value.count("\n") + 1
        what = f"str of {len(value):,} characters" + (f", {lines:,} lines" if lines > 1 else "")
        return _cut_sequence(value, what, limit, name)
    if kind in (bytes, bytearray):
        return _cut_sequence(value, f"{kind.__name__} of {len(value):,} bytes", limit, name)
    if kind is int:
        return f"int of {int.bit_length(value):,} bits (kept as {name})"
    if kind is dict:
        return _of_dict(value, limit, name, depth)
    return _of_items(value, limit, name, depth)


def bind_name(namespace: "dict[str, Any]", value: object, cell: int) -> str:
    """The variable that has the value: an existing one, or a new `_r7` for cell 7. The last few of
    those stay."""
    for known, bound in namespace.items():
        if bound is value and known.isidentifier() and not known.startswith("_"):
            return known
    name = f"_r{cell}"
    namespace[name] = value
    numbers = sorted(int(known[2:]) for known in namespace if known.startswith("_r") and known[2:].isdecimal())
    for number in numbers[:-MOST_KEPT]:
        namespace.pop(f"_r{number}", None)
    return name


def short(value: object, limit: int = ITEM_CHARACTERS, depth: int = 0) -> str:
    """A value in one line; `depth` counts the values around it."""
    try:
        large = is_large(value, limit)
        text = preview(value, limit // 2, "", depth).replace(" (kept as )", "") if large else repr(value)
    except Exception as error:
        return f"<{_kind(value)} whose repr raised {type(error).__name__}>"
    text = text.replace("\n", " ")
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _of_items(value: "Any", limit: int, name: str, depth: int) -> str:
    size = len(value)
    items = value if isinstance(value, (list, tuple)) else [item for item, _ in zip(value, range(FIRST), strict=False)]
    sample = items[:LOOKED_AT]
    kinds = list(dict.fromkeys(_kind(item) for item in sample))
    of = "items" if not kinds else kinds[0] if len(kinds) == 1 and len(items) == len(value) else "mixed items"
    if len(items) != size and len(kinds) == 1:
        of = kinds[0]
    head = f"{_base(value).__name__} of {size:,} {of}{_keys(sample)} (kept as {name})"
    if depth >= NESTED:
        return head
    room = max(40, min(ITEM_CHARACTERS, limit // (FIRST + LAST)))
    if len(items) != size:
        return "\n".join([head, *(short(item, room, depth + 1) for item in items), "..."])
    first = [f"[{index}] {short(item, room, depth + 1)}" for index, item in enumerate(items[:FIRST])]
    rest = range(max(FIRST, size - LAST), size)
    gap = ["..."] if rest and rest[0] > FIRST else []
    return "\n".join([head, *first, *gap, *(f"[{index}] {short(items[index], room, depth + 1)}" for index in rest)])


def _of_dict(value: "dict[Any, Any]", limit: int, name: str, depth: int) -> str:
    size = len(value)
    room = max(40, min(ITEM_CHARACTERS, limit // (FIRST + LAST)))
    kinds = list(dict.fromkeys(_kind(item) for _, item in zip(range(LOOKED_AT), value.values(), strict=False)))
    of = f" of {kinds[0]}" if len(kinds) == 1 else ""
    head = f"dict of {size:,} {'item' if size == 1 else 'items'}{of} (kept as {name})"
    if depth >= NESTED:
        return head
    shown = [key for key, _ in zip(value, range(SHOWN_KEYS), strict=False)]
    last = [] if size <= SHOWN_KEYS else [next(reversed(value))]
    lines = [f"{short(key, room // 2, depth + 1)}: {short(value[key], room, depth + 1)}" for key in (*shown, *last)]
    gap = ["..."] if last else []
    return "\n".join([head, *lines[: len(shown)], *gap, *lines[len(shown) :]])


def _keys(items: "Any") -> str:
    """The keys of a list of dicts, in the order in which they first occur."""
    if not items or any(_base(item) is not dict for item in items):
        return ""
    keys = list(dict.fromkeys(key for item in items for key in item))
    names = [_key(key) for key in keys[:SHOWN_KEYS]]
    shown = ", ".join(names)
    more = f", ... ({len(keys)} in all)" if len(keys) > SHOWN_KEYS else ""
    return f", keys: {shown}{more}"


def _key(key: object) -> str:
    is_plain = isinstance(key, str) and len(key) <= KEY_CHARACTERS and key.isidentifier()
    return str(key) if is_plain else short(key, KEY_CHARACTERS)


def _cut_sequence(value: "str | bytes | bytearray", what: str, limit: int, name: str) -> str:
    head, tail = value[: limit // 3], value[len(value) - limit // 6 :]
    # An escape takes several characters.
    while _is_wide(head, limit // 3):
        head = head[: len(head) // 2]
    while _is_wide(tail, limit // 6):
        tail = tail[len(tail) - len(tail) // 2 :]
    gap = len(value) - len(head) - len(tail)
    unit = "characters" if isinstance(value, str) else "bytes"
    missing = f"... {gap:,} {unit} left out; {name}[{len(head)}:] ..."
    return f"{what} (kept as {name})\n{head!r}\n{missing}\n{tail!r}"


def _is_wide(part: "str | bytes | bytearray", room: int) -> bool:
    return len(part) > 1 and len(repr(part)) > room * 3 // 2 + 20


def cut_text(text: str, what: str, limit: int, name: str) -> str:
    """The start and the end of a text that represents a value."""
    head, tail = limit * 2 // 3, limit // 4
    gap = len(text) - head - tail
    what = f"{what} of {len(text):,} characters (kept as {name})"
    return f"{what}\n{text[:head]}\n... {gap:,} characters left out ...\n{text[len(text) - tail :]}"


def _base(value: object) -> type:
    """The builtin type whose `repr` the value uses: results of tools are subclasses of list and
    dict."""
    kind = type(value)
    for base in (str, bytes, bytearray, list, tuple, set, frozenset, dict, int):
        # Not `isinstance`: it asks the value itself, and a proxy without its object raises.
        if issubclass(kind, base):
            return base if kind.__repr__ is base.__repr__ else kind
    return kind


def _kind(value: object) -> str:
    kind = _base(value)
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"
