"""JSON lines by the C half of the `json` package alone: importing the package itself would cost 7 ms of the start."""

from _json import encode_basestring, make_encoder, make_scanner

__all__ = ["FrameError", "decode", "encode"]


class FrameError(ValueError):
    """A line from the host that is no frame."""


class _Dialect:
    strict = True
    object_hook = None
    object_pairs_hook = None
    array_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: dict[str, str] = {}


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} cannot go into a frame")


_scan = make_scanner(_Dialect())  # type: ignore[arg-type]  # any object with these attributes will do
_encode = make_encoder(None, _refuse, encode_basestring, None, ":", ",", False, False, False)


def encode(frame: dict[str, object]) -> bytes:
    """One line. Lone surrogates become visible escapes: no decoder has to take them."""
    text = "".join(_encode(frame, 0))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return "".join(_visible(character) for character in text).encode() + b"\n"


def _visible(character: str) -> str:
    return f"\\\\u{ord(character):04x}" if "\ud800" <= character <= "\udfff" else character


def decode(line: bytes) -> dict[str, object]:
    """The frame in a line; raises `FrameError` for anything else than one JSON object with a `type`."""
    try:
        text = line.decode().strip()
        value, end = _scan(text, 0)
    except Exception as error:
        raise FrameError(f"not JSON: {error}") from None
    if end != len(text) or not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise FrameError("not one JSON object with a type")
    return value
