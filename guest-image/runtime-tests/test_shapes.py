"""The shapes of values in docs, from schemas of all kinds."""

import pytest

from _mcp_guest.servers import schema as schemas
from _mcp_guest.servers import shapes

EDITS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "edits": {"type": "array", "items": {"$ref": "#/$defs/Edit"}},
            "mode": {"enum": ["r", "w", None]},
        },
        "required": ["path", "edits"],
    },
}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (EDITS, 'list[{"path": str, "edits": list[{"old": str, "new": str}], "mode"?: "r" | "w" | None}]'),
        ({"type": ["string", "null"]}, "str | None"),
        ({}, "any"),
        (True, "any"),
        ({"type": "array"}, "list"),
        ({"type": "array", "items": True}, "list"),
        ({"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}], "items": False}, "[float, str]"),
        ({"type": "object"}, "dict"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"properties": {"a": {"type": "boolean"}}, "additionalProperties": True}, '{"a"?: bool, ...}'),
        ({"anyOf": [EDITS["items"], {"type": "null"}]}, '{"path": str, "edits": list[{"old": str, "new": str}], "mode"?: "r" | "w" | None} | None'),
        ({"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, '{"a"?: any, "b"?: any}'),
        ({"allOf": [{"type": "object", "properties": {"a": {}}}, {"required": ["a"]}]}, '{"a": any}'),
        ({"type": "object", "properties": {'x"\n': {"const": "it's"}}}, "{\"'x\\\"\\\\n'\"?: \"it's\"}"),
        ({"$ref": "http://127.0.0.1:9/"}, "any"),
        ({"enum": list(range(20))}, "0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | ..."),
        ({"enum": [[1], {"a": 1}]}, "[...] | {...}"),
    ],
)
def test_shape_of_each_kind_of_schema(schema: object, expected: str) -> None:
    root = {"$defs": {"Edit": {"type": "object", "properties": {"old": {"type": "string"}, "new": {"type": "string"}}, "required": ["old", "new"]}}}
    assert shapes.shape(schemas.Document(root), schema) == expected


def test_shapes_of_recursive_and_huge_schemas_are_bounded() -> None:
    node: dict[str, object] = {"type": "object", "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}}}
    text = shapes.shape(schemas.Document(node), node)
    assert text == '{"name"?: str, "children"?: list[{"name"?: str, "children"?: list[{"name"?: str, "children"?: list}]}]}'
    wide = {"type": "object", "properties": {f"property_{n}": node for n in range(1000)}}
    wide["properties"] = dict.fromkeys(wide["properties"], wide)
    assert len(shapes.shape(schemas.Document(wide), wide)) <= shapes.CHARACTERS
    bomb = {"$defs": {str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 9, "properties": {"a": {"$ref": f"#/$defs/{n + 1}"}}} for n in range(99)}}
    assert len(shapes.shape(schemas.Document(bomb), {"$ref": "#/$defs/0"})) <= shapes.CHARACTERS
