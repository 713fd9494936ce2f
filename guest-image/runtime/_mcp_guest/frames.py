"""JSON lines by the C half of the `json` package alone: importing the package itself would cost 7 ms of the start."""

from _json import encode_basestring, make_encoder, make_scanner

__all__ = ["FrameError", "decode", "encode", "encode_exactly", "parse"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class FrameError(ValueError):
    """A line from the host that is no frame."""


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
    """Python does not convert integers of thousands of digits; they come as text."""
    try:
        return int(digits)
    except ValueError:
        return digits


class _PatientDialect(_Dialect):
    parse_int = staticmethod(_long_integer)


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} cannot go into a frame")


_scan = make_scanner(_Dialect())  # type: ignore[arg-type]  # any object with these attributes will do
_scan_patiently = make_scanner(_PatientDialect())  # type: ignore[arg-type]
_encode = make_encoder(None, _refuse, encode_basestring, None, ":", ",", False, False, False)


def encode(frame: dict[str, object]) -> bytes:
    """One line. Lone surrogates become visible escapes: no decoder has to take them."""
    text = "".join(_encode(frame, 0))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return "".join(_visible(character) for character in text).encode() + b"\n"


def encode_exactly(frame: dict[str, object]) -> bytes:
    """One line, for what must arrive as it is; raises for what JSON or UTF-8 cannot express."""
    return "".join(_encode(frame, 0)).encode() + b"\n"


def _visible(character: str) -> str:
    return f"\\\\u{ord(character):04x}" if "\ud800" <= character <= "\udfff" else character


def decode(line: bytes) -> dict[str, object]:
    """The frame in a line; raises `FrameError` for anything else than one JSON object with a `type`."""
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
        return _scan_patiently(text, 0)
