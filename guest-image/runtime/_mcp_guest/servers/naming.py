"""Names: as Python identifiers, as text in messages, and what was probably meant."""

from _mcp_guest.lazy import lazy

__all__ = ["aliases", "closest", "hint", "listed", "parameter_names", "plain_alias", "shown"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    import difflib
    import unicodedata
else:
    difflib = lazy("difflib")
    unicodedata = lazy("unicodedata")

KEPT = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")
LETTERS = KEPT | frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
KEYWORDS = frozenset((
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
))  # fmt: skip
SHOWN_CHARACTERS = 80
LISTED = 20


def plain_alias(name: str, empty: str) -> str:
    """The alias of a server or tool, as the host makes it: lower case, other characters become
    `_`."""
    return _spell(name.lower(), KEPT) or empty


def aliases(names: "Iterable[str]", empty: str) -> "dict[str, str]":
    """A distinct alias for each name. Where names would share one, the name that equals it keeps
    it."""
    return _distinct(names, lambda name: plain_alias(name, empty))


def parameter_names(names: "Iterable[str]") -> "dict[str, str]":
    """Python names for the properties of a schema: `from` becomes `from_`, `$top` becomes `_top`,
    `userId` stays."""
    return _distinct(names, _parameter_name)


def _parameter_name(name: str) -> str:
    # Python normalises identifiers, so a name in another form could not be written in source.
    is_normal = name.isascii() or unicodedata.normalize("NFKC", name) == name
    if is_normal and name.isidentifier() and name not in KEYWORDS:
        return name
    return _spell(name, LETTERS) or "argument"


def _spell(name: str, kept: frozenset[str]) -> str:
    out: list[str] = []
    replaced = False
    for character in name:
        if character in kept:
            out.append(character)
            replaced = False
        elif not replaced:
            out.append("_")
            replaced = True
    text = "".join(out)
    if text[:1].isdigit():
        text = "_" + text
    return text + "_" if text in KEYWORDS else text


def _distinct(names: "Iterable[str]", spell: "Callable[[str], str]") -> "dict[str, str]":
    """The result does not depend on the order of the names."""
    result: dict[str, str] = {}
    taken: set[str] = set()
    following: dict[str, int] = {}
    spelled = {name: spell(name) for name in names}
    for name in sorted(spelled, key=lambda name: (spelled[name] != name, name)):
        plain = spelled[name]
        number = following.get(plain, 1)
        while True:
            candidate = plain if number == 1 else f"{plain}_{number}"
            number += 1
            if candidate not in taken:
                break
        following[plain] = number
        taken.add(candidate)
        result[name] = candidate
    return {name: result[name] for name in spelled}


def shown(name: object) -> str:
    """A name as part of a message, quoted and shortened where necessary."""
    text = str(name)
    if len(text) > SHOWN_CHARACTERS:
        text = text[:SHOWN_CHARACTERS] + "..."
    return text if text.isprintable() and text and text == text.strip() else repr(text)


def listed(names: "Iterable[str]") -> str:
    """The first names, and how many more there are."""
    all_names = list(names)
    more = len(all_names) - LISTED
    return ", ".join(map(shown, all_names[:LISTED])) + (f" and {more} more" if more > 0 else "")


def closest(name: str, names: "Iterable[str]") -> str | None:
    """The name that was probably meant."""
    if len(name) > 4 * SHOWN_CHARACTERS:
        return None
    folded: dict[str, str] = {}
    for other in names:
        folded.setdefault(other.lower().replace("-", "_"), other)
    found = difflib.get_close_matches(name.lower().replace("-", "_"), folded, 1, 0.6)
    return folded[found[0]] if found else None


def hint(name: str, names: "Iterable[str]") -> str:
    """` (did you mean title?)`, or nothing."""
    meant = closest(name, names)
    return f" (did you mean {shown(meant)}?)" if meant else ""
