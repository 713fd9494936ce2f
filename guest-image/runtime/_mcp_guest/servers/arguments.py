"""The parameters of a tool, from its schema; calls are checked against them before anything is
sent."""

from _mcp_guest.api.errors import brief
from _mcp_guest.frames import FRAME_LIMIT, encode_exactly
from _mcp_guest.lazy import lazy
from _mcp_guest.servers import schema as schemas
from _mcp_guest.servers.naming import hint, parameter_names, shown

__all__ = ["Omitted", "Parameter", "Parameters", "not_json", "unsendable"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import inspect
    from inspect import Signature
    from typing import Any
    import unicodedata
else:
    inspect = lazy("inspect")
    unicodedata = lazy("unicodedata")

VALUE_CHARACTERS = 100
SIGNATURE_CHARACTERS = 1500
CHOICES = 12
PATH_DEPTH = 50
# The part of a request that is not its parameters.
ENVELOPE = 1000


class Omitted:
    """The default of an optional parameter, which is not sent; shows the server's default, where
    that is known."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


NOTHING = Omitted("...")


class Parameter:
    """One of a tool's arguments."""

    __slots__ = ("document", "name", "required", "schema", "types", "values", "wire")

    def __init__(self, wire: str, name: str, document: schemas.Document, schema: object, required: bool) -> None:
        self.wire, self.name, self.document, self.required = wire, name, document, required
        self.schema = schemas.resolve(document, schema)
        self.types = schemas.types(document, schema)
        self.values = schemas.values(document, schema)

    @property
    def kind(self) -> str:
        """The allowed types, as text: `string or null`."""
        if self.types is None:
            return "any"
        return " or ".join(name for name in schemas.ORDER if name in self.types)

    @property
    def is_deep(self) -> bool:
        """Whether its shape says more than its kind."""
        return self.types is None or bool(self.types & {"array", "object"})

    @property
    def default(self) -> Omitted:
        if "default" not in self.schema:
            return NOTHING
        return Omitted(_short(self.schema["default"]))

    def wrong(self, value: object) -> str:
        """Why the value is certainly wrong; empty where it may be right."""
        if value is None and not self.required:
            return ""  # It is sent unchanged.
        if self.types is not None and not any(_is_of(value, name) for name in self.types):
            return f"{shown(self.name)} must be {self.kind}, not {type(value).__name__}: {_short(value)}"
        if self.values is not None and not any(_same(value, other) for other in self.values):
            choices = ", ".join(_short(other) for other in self.values[:CHOICES])
            more = len(self.values) - CHOICES
            meant = ""
            if isinstance(value, str):
                meant = hint(value, [other for other in self.values if isinstance(other, str)])
            one_of = "one of " if len(self.values) > 1 else ""
            return (
                f"{shown(self.name)} must be {one_of}{choices}{f' and {more} more' if more > 0 else ''},"
                f" not {_short(value)}{meant}"
            )
        return ""


class Parameters:
    """All arguments of a tool."""

    __slots__ = ("all", "by_key", "document", "open", "positional")

    def __init__(self, root: object) -> None:
        document = self.document = schemas.Document(root)
        found, required, self.open = schemas.properties(document)
        names = parameter_names(found)
        made = [Parameter(wire, names[wire], document, schema, wire in required) for wire, schema in found.items()]
        # Required parameters first, otherwise in the order of the schema.
        self.all = sorted(made, key=lambda parameter: not parameter.required)
        self.by_key = {parameter.name: parameter for parameter in self.all}
        self.by_key.update((parameter.wire, parameter) for parameter in self.all)
        for parameter in self.all:
            if not parameter.wire.isascii():
                # Python normalises such a name when it reads source.
                self.by_key.setdefault(unicodedata.normalize("NFKC", parameter.wire), parameter)
        # The parameter that may be given by position.
        must = [parameter for parameter in self.all if parameter.required]
        one = must if len(must) == 1 else self.all if len(self.all) == 1 else []
        self.positional = one[0] if one else None

    def signature(self) -> "Signature":
        """For `inspect.signature` and `help`."""
        self.document.rewind()
        made = []
        for parameter in self.all:
            named, either = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
            made.append(
                inspect.Parameter(
                    parameter.name,
                    either if parameter is self.positional else named,
                    default=inspect.Parameter.empty if parameter.required else parameter.default,
                    annotation=schemas.annotation(parameter.document, parameter.schema),
                )
            )
        if self.open:
            made.append(inspect.Parameter(self._rest(), inspect.Parameter.VAR_KEYWORD))
        return inspect.Signature(made)

    def _rest(self) -> str:
        name = "more"
        while name in self.by_key:
            name += "_"
        return name

    def bind(self, called: str, name: str, args: "tuple[object, ...]", kwargs: "dict[str, object]") -> "dict[str, Any]":
        """The arguments by their names on the wire; raises a TypeError that names everything that
        is wrong."""
        arguments: dict[str, Any] = {}
        problems: list[str] = []
        unknown: list[str] = []
        if args:
            if len(args) > 1 or self.positional is None:
                raise self._error(called, name, [f"takes named arguments: {self._named(name, args, kwargs)}"])
            arguments[self.positional.wire] = args[0]
        for key, value in kwargs.items():
            parameter = self.by_key.get(key)
            if isinstance(value, Omitted):
                continue
            if parameter is None:
                if self.open:
                    arguments[key] = value
                else:
                    unknown.append(key)
            elif parameter.wire in arguments:
                problems.append(f"got {shown(parameter.name)} twice")
            else:
                arguments[parameter.wire] = value
        wrong = []
        for parameter in self.all:
            if parameter.wire in arguments:
                text = parameter.wrong(arguments[parameter.wire])
                if text:
                    wrong.append(text)
        missing = [one for one in self.all if one.required and one.wire not in arguments]
        if not (missing or unknown or problems or wrong):
            return arguments
        if missing:
            problems.insert(0, "is missing: " + ", ".join(f"{shown(one.name)} ({one.kind})" for one in missing))
        if unknown:
            names = [one.name for one in self.all]
            free = [one.name for one in self.all if one.wire not in arguments]
            spelled = [shown(key) + (hint(key, free) or hint(key, names)) for key in unknown]
            problems.append("has no argument: " + ", ".join(spelled))
        raise self._error(called, name, problems + wrong)

    def _error(self, called: str, name: str, problems: list[str]) -> BaseException:
        return brief(TypeError(f"{called}() {'; '.join(problems)}\n{self.line(name)}"))

    def line(self, name: str) -> str:
        """The signature in one line."""
        text = f"{name}{self.signature()}"
        return text if len(text) <= SIGNATURE_CHARACTERS else text[:SIGNATURE_CHARACTERS] + "..."

    def _named(self, name: str, args: "tuple[object, ...]", kwargs: "dict[str, object]") -> str:
        """The call that was probably meant."""
        if len(args) == 1 and isinstance(args[0], dict) and not kwargs:
            return f"{name}(**{_short(args[0])})"
        free = [one for one in self.all if one.wire not in kwargs and one.name not in kwargs]
        parts = [f"{one.name}={_short(value)}" for one, value in zip(free, args, strict=False)]
        parts += [f"{one.name}=..." for one in free[len(args) :] if one.required]
        parts += [f"{shown(key)}={_short(value)}" for key, value in kwargs.items()]
        return f"{name}({', '.join(parts)})"


def _short(value: object) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= VALUE_CHARACTERS else text[:VALUE_CHARACTERS] + "..."


def _is_of(value: object, name: str) -> bool:
    if name == "string":
        return isinstance(value, str)
    if name == "null":
        return value is None
    if name == "boolean":
        return isinstance(value, bool)
    if name == "array":
        return isinstance(value, (list, tuple))
    if name == "object":
        return isinstance(value, dict)
    if isinstance(value, bool):
        return False
    if name == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return isinstance(value, (int, float))


def _same(value: object, other: object) -> bool:
    """Equality of JSON values: 1 equals 1.0 but not true."""
    if isinstance(value, tuple):
        value = list(value)
    return value == other and isinstance(value, bool) == isinstance(other, bool)


HINTS = {
    "bytes": "bytes: decode it, or base64.b64encode(it).decode()",
    "bytearray": "bytearray: decode it, or base64.b64encode(it).decode()",
    "Blob": "bytes: base64.b64encode(it).decode()",
    "datetime": "datetime: use .isoformat()",
    "date": "date: use .isoformat()",
    "time": "time: use .isoformat()",
    "set": "set: use list(it)",
    "frozenset": "frozenset: use list(it)",
    "Decimal": "Decimal: use str(it) or float(it)",
    "PosixPath": "path: use str(it)",
    "UUID": "UUID: use str(it)",
    "coroutine": "coroutine: await it first",
    "DataFrame": 'DataFrame: use .to_dict("records")',
    "Series": "Series: use .tolist()",
    "ndarray": "ndarray: use .tolist()",
}


def not_json(params: "dict[str, Any]", error: BaseException) -> str:
    """Which value of a request cannot be sent as JSON, and why."""
    if isinstance(error, RecursionError):
        return "the arguments are nested too deeply, or contain themselves"
    found = _find_not_json(params.get("arguments", params), "", PATH_DEPTH)
    return found or f"the arguments are not JSON: {error}"


def unsendable(params: "dict[str, Any]") -> str:
    """Which of the named values cannot be sent as JSON, and why; empty if all can."""
    try:
        size = len(encode_exactly(params))
    except RecursionError:
        return "the value is nested too deeply, or contains itself"
    except (TypeError, ValueError) as error:
        return _find_not_json(params, "", PATH_DEPTH) or f"the value is not JSON: {error}"
    if size > FRAME_LIMIT - ENVELOPE:
        return f"too large: {size:,} bytes, of {FRAME_LIMIT - ENVELOPE:,} that can be sent"
    return ""


def _find_not_json(value: "Any", path: str, depth: int) -> str:
    where = path or "the arguments"
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return f"{where} is not JSON: it holds a lone surrogate, half of a character"
        return ""
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return f"{where} is not JSON: {value!r}"
        return ""
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, int):
        try:
            int.__repr__(value)
        except ValueError:
            return f"{where} is not JSON: an integer too long to be written"
        return ""
    if not depth:
        return ""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, (str, int, float)) and key is not None:
                return f"{where} is not JSON: the key {_short(key)} is not a string"
            name = shown(key)
            found = _find_not_json(key, f"a key of {where}", depth - 1) or _find_not_json(
                item, f"{path}.{name}" if path else name, depth - 1
            )
            if found:
                return found
        return ""
    if isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            found = _find_not_json(item, f"{path}[{index}]", depth - 1)
            if found:
                return found
        return ""
    kind = type(value).__name__
    return f"{where} is not JSON: {HINTS.get(kind, kind)}"
