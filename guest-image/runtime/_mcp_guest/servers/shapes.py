"""The shape of a value in one line, like `list[{"path": str, "mode"?: "r" | "w"}]`, for docs.

Schemas come from servers: depth and length of a shape are limited, and the rest is left out.
"""

from _mcp_guest.servers import schema as schemas
from _mcp_guest.servers.naming import shown

__all__ = ["shape"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

DEPTH = 5
CHARACTERS = 600
KEYS = 20
VARIANTS = 6
LITERALS = 8
TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def shape(document: schemas.Document, schema: object) -> str:
    """As deep as fits into a line; `{...}` and `list` mean that there is more."""
    for depth in range(DEPTH, 0, -1):
        document.rewind()
        text = _shape(document, schema, depth)
        if len(text) <= CHARACTERS:
            return text
    document.rewind()
    return _shape(document, schema, 0)


def _shape(document: schemas.Document, schema: object, depth: int) -> str:
    listed = schemas.values(document, schema)
    if listed is not None:
        return _joined((_literal(value) for value in listed[: LITERALS + 1]), LITERALS)
    schema = schemas.resolve(document, schema)
    direct = any(key in schema for key in ("type", "properties", "items"))
    for key in ("anyOf", "oneOf"):
        variants = schema.get(key)
        if isinstance(variants, list) and variants and not direct:
            if not depth:
                return "..."
            return _joined((_shape(document, variant, depth - 1) for variant in variants[: VARIANTS + 1]), VARIANTS)
    allowed = schemas.types(document, schema)
    if allowed is None:
        # An untyped schema with properties or items is an object or an array.
        allowed = frozenset(name for name, key in (("object", "properties"), ("array", "items")) if key in schema)
    parts = []
    for name in schemas.ORDER:
        if name not in allowed:
            continue
        if name == "array":
            parts.append(_array(document, schema, depth))
        elif name == "object":
            parts.append(_object(document, schema, depth))
        else:
            parts.append(TYPES[name])
    return _joined(parts, VARIANTS) if parts else "any"


def _array(document: schemas.Document, schema: "schemas.Schema", depth: int) -> str:
    items, fixed = schema.get("items"), schema.get("prefixItems")
    if isinstance(fixed, list) and fixed and depth:
        parts = [_shape(document, item, depth - 1) for item in fixed[:VARIANTS]]
        more = [", ..."] if len(fixed) > VARIANTS or items not in (None, False) else []
        return f"[{', '.join(parts)}{''.join(more)}]"
    if not isinstance(items, dict) or not depth:
        return "list"
    item = _shape(document, items, depth - 1)
    return "list" if item == "any" else f"list[{item}]"


def _object(document: schemas.Document, schema: "schemas.Schema", depth: int) -> str:
    found, required, others = schemas.collect(document, schema)
    if not found:
        values = schema.get("additionalProperties")
        if isinstance(values, dict) and values and depth:
            return f"dict[str, {_shape(document, values, depth - 1)}]"
        return "dict"
    if not depth:
        return "{...}"
    parts = []
    for name, value in list(found.items())[:KEYS]:
        # Quotes in a name are escaped as in Python.
        key = '"' + shown(name).replace("\\", "\\\\").replace('"', '\\"') + '"'
        parts.append(f"{key}{'' if name in required else '?'}: {_shape(document, value, depth - 1)}")
    if len(found) > KEYS or others:
        parts.append("...")
    return f"{{{', '.join(parts)}}}"


def _literal(value: object) -> str:
    if isinstance(value, str):
        value = value if len(value) <= schemas.LITERAL_CHARACTERS else value[: schemas.LITERAL_CHARACTERS] + "..."
    elif isinstance(value, (list, dict)):
        return "[...]" if isinstance(value, list) else "{...}"
    text = repr(value)
    double = text[:1] == "'" and '"' not in text
    return f'"{text[1:-1]}"' if double else text


def _joined(parts: "Iterable[str]", most: int) -> str:
    found: list[str] = []
    for part in parts:
        if part not in found:
            found.append(part)
    return " | ".join([*found[:most], "..."] if len(found) > most else found)
