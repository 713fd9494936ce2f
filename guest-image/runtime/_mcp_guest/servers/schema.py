"""What a JSON Schema says about arguments, as far as Python can use it; anything exotic is `Any`.

Schemas come from servers and are not trusted: references stay within the document, every walk has a
limited depth, and whatever does not have the expected form is ignored.
"""

from _mcp_guest.lazy import lazy

__all__ = [
    "LITERAL_CHARACTERS",
    "ORDER",
    "Document",
    "annotation",
    "collect",
    "properties",
    "resolve",
    "types",
    "values",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    import typing
    from typing import Any
    from urllib import parse as urllib_parse

    Schema = dict[str, Any]
else:
    typing = lazy("typing")
    urllib_parse = lazy("urllib.parse")

REFERENCES = 20
STEPS = 20_000
DEPTH = 6
VARIANTS = 50
LITERALS = 20
LITERAL_CHARACTERS = 60
ORDER = ("string", "integer", "number", "boolean", "array", "object", "null")


class Document:
    """A whole schema, and how many steps a walk may still take: references can multiply without
    end."""

    __slots__ = ("left", "root")

    def __init__(self, root: object) -> None:
        self.root, self.left = root, STEPS

    def rewind(self) -> None:
        """Begins a new walk."""
        self.left = STEPS


def resolve(document: Document, schema: object) -> "Schema":
    """The schema with its references replaced by what they point at; empty where they lead
    nowhere."""
    for _ in range(REFERENCES):
        document.left -= 1
        if not isinstance(schema, dict) or document.left < 0:
            return {}
        reference = schema.get("$ref", schema.get("$dynamicRef"))
        if not isinstance(reference, str):
            return schema
        rest = {key: value for key, value in schema.items() if key not in ("$ref", "$dynamicRef")}
        target = _target(document.root, reference)
        if not isinstance(target, dict):
            return rest
        schema = {**target, **rest} if rest else target
    return {}


def _target(root: object, reference: str) -> object:
    """What a reference points at; None for other documents, which are never fetched."""
    if not reference.startswith("#"):
        return None
    path = reference[1:]
    if path and not path.startswith("/"):
        return _anchored(root, path)
    if "%" in path:
        path = urllib_parse.unquote(path)
    here = root
    for step in path.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(here, dict):
            here = here.get(step)
        elif isinstance(here, list) and step.isascii() and step.isdigit() and len(step) < 6 and int(step) < len(here):
            here = here[int(step)]
        else:
            return None
    return here


def _anchored(root: object, anchor: str) -> object:
    for key in ("$defs", "definitions"):
        known = root.get(key) if isinstance(root, dict) else None
        for schema in known.values() if isinstance(known, dict) else ():
            if isinstance(schema, dict) and anchor in (schema.get("$anchor"), schema.get("$dynamicAnchor")):
                return schema
    return None


def _list(schema: "Schema", *keys: str) -> "list[object]":
    found: list[object] = []
    for key in keys:
        value = schema.get(key)
        if isinstance(value, list):
            found += value[:VARIANTS]
    return found


def properties(document: Document) -> "tuple[dict[str, object], list[str], bool]":
    """The arguments of a tool: schemas by name, the required names, and whether others are
    allowed."""
    found: dict[str, object] = {}
    required: list[str] = []
    lists_any, others = _collect(document, document.root, DEPTH, found, required)
    for name in required:
        found.setdefault(name, {})
    return found, [name for name in found if name in required], others or not lists_any


def collect(document: Document, schema: object) -> "tuple[dict[str, object], list[str], bool]":
    """The same for an object anywhere in the document, and whether it says that others are
    allowed."""
    found: dict[str, object] = {}
    required: list[str] = []
    _, others = _collect(document, schema, DEPTH, found, required)
    return found, required, others


def _collect(
    document: Document, schema: object, depth: int, found: "dict[str, object]", required: list[str]
) -> tuple[bool, bool]:
    """Adds a schema's properties; returns whether it lists any, and whether it allows others."""
    schema = resolve(document, schema)
    own = schema.get("properties")
    lists_any = isinstance(own, dict)
    if isinstance(own, dict):
        for name, value in own.items():
            found.setdefault(name, value)
    others = False
    for key in ("additionalProperties", "unevaluatedProperties", "patternProperties"):
        value = schema.get(key)
        others = others or value is True or (isinstance(value, dict) and (bool(value) or key[0] != "p"))
    lists_any = lists_any or schema.get("additionalProperties") is False
    required += [name for name in _list(schema, "required") if isinstance(name, str) and name not in required]
    if depth:
        for part in _list(schema, "allOf"):
            part_lists, part_others = _collect(document, part, depth - 1, found, required)
            lists_any, others = lists_any or part_lists, others or part_others
        variants = [variant for variant in _list(schema, "anyOf", "oneOf") if isinstance(variant, dict)]
        variants += [schema[key] for key in ("if", "then", "else") if isinstance(schema.get(key), dict)]
        dependent = schema.get("dependentSchemas")
        variants += list(dependent.values())[:VARIANTS] if isinstance(dependent, dict) else []
        for variant in variants:
            # What one of several variants requires is optional here; the server checks it.
            named: list[str] = []
            part_lists, part_others = _collect(document, variant, depth - 1, found, named)
            for name in named:
                found.setdefault(name, {})
            lists_any, others = lists_any or part_lists, others or part_others
    return lists_any, others


def types(document: Document, schema: object, depth: int = DEPTH) -> "frozenset[str] | None":
    """The JSON types that are allowed; None where the schema does not say."""
    schema = resolve(document, schema)
    allowed: frozenset[str] | None = None
    kind = schema.get("type")
    names = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else []
    known = frozenset(name for name in names if isinstance(name, str))
    if known and known <= set(ORDER):
        allowed = known
    if "const" in schema:
        allowed = _both(allowed, frozenset((_type_of(schema["const"]),)))
    elif isinstance(schema.get("enum"), list):
        allowed = _both(allowed, frozenset(_type_of(value) for value in schema["enum"]))
    if depth:
        for part in _list(schema, "allOf"):
            allowed = _both(allowed, types(document, part, depth - 1))
        for key in ("anyOf", "oneOf"):
            variants = _list(schema, key)
            if variants:
                allowed = _both(allowed, _any([types(document, variant, depth - 1) for variant in variants]))
    elif any(key in schema for key in ("allOf", "anyOf", "oneOf")):
        return None
    if schema.get("nullable") is True and allowed is not None:
        allowed |= {"null"}
    return allowed or None


def _any(variants: "list[frozenset[str] | None]") -> "frozenset[str] | None":
    union: frozenset[str] = frozenset()
    for variant in variants:
        if variant is None:
            return None
        union |= variant
    return union


def _both(one: "frozenset[str] | None", other: "frozenset[str] | None") -> "frozenset[str] | None":
    if one is None or other is None:
        return other if one is None else one
    both = one & other
    if "number" in one | other and "integer" in one | other:
        both |= {"integer"}
    return both


def _type_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float):
        return "number"
    return {str: "string", int: "integer", list: "array", dict: "object"}.get(type(value), "object")


def values(document: Document, schema: object, depth: int = DEPTH) -> "list[Any] | None":
    """All values that are allowed, where the schema lists them."""
    schema = resolve(document, schema)
    found: list[Any] | None = None
    if "const" in schema:
        found = [schema["const"]]
    elif isinstance(schema.get("enum"), list) and schema["enum"]:
        found = list(schema["enum"])
    elif schema.get("type") == "null":
        found = [None]
    elif depth:
        for part in _list(schema, "allOf"):
            found = found or values(document, part, depth - 1)
        variants = _list(schema, "anyOf") or _list(schema, "oneOf")
        if found is None and variants:
            listed = [values(document, variant, depth - 1) for variant in variants]
            if all(some is not None for some in listed):
                found = [value for some in listed for value in some or ()]
    if found is not None and schema.get("nullable") is True and None not in found:
        found.append(None)
    return found


def annotation(document: Document, schema: object, depth: int = DEPTH) -> "Any":
    """The type annotation for signatures."""
    parts = _parts(document, schema, depth)
    if not parts:
        return typing.Any
    union = parts[0]
    for part in parts[1:]:
        union = union | part
    return union


def _parts(document: Document, schema: object, depth: int) -> "list[Any]":
    """Members of the union, with None as the last one; empty for `Any`."""
    listed = values(document, schema)
    if listed is not None and len(listed) <= LITERALS and all(_is_literal(value) for value in listed):
        plain = _unique(value for value in listed if value is not None)
        parts = [typing.Literal[tuple(plain)]] if plain else []
        return [*parts, None] if None in listed else parts
    schema = resolve(document, schema)
    variants = _list(schema, "anyOf") or _list(schema, "oneOf")
    if variants and depth:
        members = [_parts(document, variant, depth - 1) for variant in variants]
        if not all(members):
            return []
        return _ordered(part for member in members for part in member)
    allowed = types(document, schema)
    if allowed is None or not depth:
        return []
    made: list[Any] = []
    for name in ORDER:
        if name not in allowed:
            continue
        if name == "array":
            items = schema.get("items")
            item = annotation(document, items, depth - 1) if isinstance(items, dict) else typing.Any
            made.append(list if item is typing.Any else list.__class_getitem__(item))
        elif name == "object":
            made.append(dict)
        else:
            made.append({"string": str, "integer": int, "number": float, "boolean": bool, "null": None}[name])
    return _ordered(made)


def _is_literal(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= LITERAL_CHARACTERS
    return value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < 1 << 63)


def _unique(values: "Iterable[Any]") -> "list[Any]":
    found: list[Any] = []
    for value in values:
        if not any(value == other and type(value) is type(other) for other in found):
            found.append(value)
    return found


def _ordered(parts: "Iterable[Any]") -> "list[Any]":
    found = _unique(parts)
    return [part for part in found if part is not None] + [None] * (None in found)
