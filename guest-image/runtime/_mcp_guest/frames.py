"""The protocol's constants, and its codec: frames are JSON objects, one per line.

The codec uses the C half of the `json` package alone: importing the package would add 7 ms to the
start.
"""

from _json import encode_basestring, make_encoder, make_scanner

__all__ = [
    "EXIT_LOST",
    "EXIT_PROTOCOL",
    "FRAME_LIMIT",
    "FROM_HOST_LIMIT",
    "PROTOCOL",
    "FrameError",
    "decode",
    "encode",
    "encode_exactly",
    "parse",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PROTOCOL = 1
# Bytes of a line to the host.
FRAME_LIMIT = 16 << 20
# Bytes of a line from the host: the result of a tool in its envelope may be larger than what the
# guest sends.
FROM_HOST_LIMIT = (32 << 20) + (64 << 10)
# Exit codes of the guest: one side broke the protocol; user code closed the worker's channel.
EXIT_PROTOCOL, EXIT_LOST = 70, 71


class FrameError(ValueError):
    """A line from the host is not a frame."""


class _Dialect:
    strict = True
    object_hook = None
    object_pairs_hook = None
    array_hook = None
    parse_float = float
    parse_int: "Callable[[str], int | str]" = int
    parse_constant = float
    memo: dict[str, str] = {}


def _long_integer(digits: str) -> int | str:
    """Integers with thousands of digits, which Python refuses to convert, stay text."""
    try:
        return int(digits)
    except ValueError:
        return digits


class _LenientDialect(_Dialect):
    parse_int = staticmethod(_long_integer)


def _scanner(dialect: "Any") -> "Callable[[str, int], tuple[Any, int]]":
    # The C code wants any object with these attributes.
    return make_scanner(dialect)


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} cannot go into a frame")


_scan = _scanner(_Dialect())
_scan_leniently = _scanner(_LenientDialect())
_encode = make_encoder(None, _refuse, encode_basestring, None, ":", ",", False, False, False)


def encode(frame: dict[str, object]) -> bytes:
    """One line. Lone surrogates become visible escapes, so that any decoder accepts it."""
    text = "".join(_encode(frame, 0))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return "".join(_visible(character) for character in text).encode() + b"\n"


def encode_exactly(frame: dict[str, object]) -> bytes:
    """One line, for what must arrive unchanged; raises where JSON or UTF-8 cannot express a
    value."""
    return "".join(_encode(frame, 0)).encode() + b"\n"


def _visible(character: str) -> str:
    return f"\\\\u{ord(character):04x}" if "\ud800" <= character <= "\udfff" else character


def decode(line: bytes) -> dict[str, object]:
    """The frame in a line; raises `FrameError` for anything but one JSON object with a `type`."""
    try:
        text = line.decode().strip()
        value, end = _parse(text)
    except Exception as error:
        raise FrameError(f"not JSON: {error}") from None
    kind = value.get("type") if isinstance(value, dict) else None
    if end != len(text) or not isinstance(value, dict) or not isinstance(kind, str) or kind.lstrip("-").isdigit():
        raise FrameError("not one JSON object with a type")
    return value


def parse(text: str) -> object:
    """The value of a whole JSON text; raises for anything else."""
    value, end = _parse(text)
    if end != len(text):
        raise ValueError("more than one JSON value")
    return value


def _parse(text: str) -> tuple[object, int]:
    try:
        return _scan(text, 0)
    except ValueError:
        return _scan_leniently(text, 0)
