"""Names: what Python can spell, what a person may see, and what was probably meant."""

from _mcp_guest.lazy import load

__all__ = ["aliases", "closest", "hint", "listed", "parameter_names", "plain_alias", "shown"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
    """Of a server or tool, as the host makes them: lower case, each run of other characters one `_`."""
    return _spell(name.lower(), KEPT) or empty


def aliases(names: "Iterable[str]", empty: str) -> "dict[str, str]":
    """One for each name; of those that would share one, the name that is its own alias keeps it."""
    return _distinct(names, lambda name: plain_alias(name, empty))


def parameter_names(names: "Iterable[str]") -> "dict[str, str]":
    """Python names for the properties of a schema: `from` is `from_`, `$top` is `_top`, `userId` stays."""
    return _distinct(names, _parameter_name)


def _parameter_name(name: str) -> str:
    # Python normalises names in source, so one that is not normal could not be written.
    normal = name.isascii() or load("unicodedata").normalize("NFKC", name) == name
    if normal and name.isidentifier() and name not in KEYWORDS:
        return name
    return _spell(name, LETTERS) or "argument"


def _spell(name: str, kept: frozenset[str]) -> str:
    out: list[str] = []
    run = False
    for character in name:
        if character in kept:
            out.append(character)
            run = False
        elif not run:
            out.append("_")
            run = True
    text = "".join(out)
    if text[:1].isdigit():
        text = "_" + text
    return text + "_" if text in KEYWORDS else text


def _distinct(names: "Iterable[str]", spell: "Callable[[str], str]") -> "dict[str, str]":
    """Neither the order of the names nor that of a file matters."""
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
    """A name as part of a sentence, whatever is in it."""
    text = str(name)
    if len(text) > SHOWN_CHARACTERS:
        text = text[:SHOWN_CHARACTERS] + "..."
    return text if text.isprintable() and text and text == text.strip() else repr(text)


def listed(names: "Iterable[str]") -> str:
    """The first of them, and how many more there are."""
    all_names = list(names)
    more = len(all_names) - LISTED
    return ", ".join(map(shown, all_names[:LISTED])) + (f" and {more} more" if more > 0 else "")


def closest(name: str, names: "Iterable[str]") -> str | None:
    """The one that was probably meant."""
    if len(name) > 4 * SHOWN_CHARACTERS:
        return None
    folded: dict[str, str] = {}
    for other in names:
        folded.setdefault(other.lower().replace("-", "_"), other)
    found = load("difflib").get_close_matches(name.lower().replace("-", "_"), folded, 1, 0.6)
    return folded[found[0]] if found else None


def hint(name: str, names: "Iterable[str]") -> str:
    """` (did you mean title?)`, or nothing."""
    meant = closest(name, names)
    return f" (did you mean {shown(meant)}?)" if meant else ""
