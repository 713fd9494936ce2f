"""Hostile schemas: functions and docs are made from whatever a server sends, in limited time."""

import random
import time
from typing import Any

import pytest

from guest import Frame
from host import Host, server
from values import json_value


@pytest.fixture
def host(echo: Host) -> Host:
    return echo


WORDS: tuple[Any, ...] = ("string", "integer", "number", "boolean", "array", "object", "null", "odd", 7, ["string", "null"], [])
KEYS = ("type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "$defs", "default",
        "description", "additionalProperties", "nullable", "not", "if", "then", "patternProperties", "title", "$dynamicRef",
        "dependentSchemas", "$anchor", "prefixItems", "format")  # fmt: skip
REFERENCES = ("#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#a", "#/x/0", "http://127.0.0.1:9/s", "", "#/%", "#/$defs")


def schema(chance: random.Random, depth: int = 4) -> Any:
    """A value like a JSON Schema: often valid, sometimes nonsense."""
    if chance.random() < 0.05 or not depth:
        return json_value(chance, 1)
    out: Frame = {}
    for key in chance.sample(KEYS, chance.randrange(6)):
        if chance.random() < 0.05:
            out[key] = json_value(chance, 2)
        elif key == "type":
            out[key] = chance.choice(WORDS)
        elif key in ("properties", "$defs", "dependentSchemas", "patternProperties"):
            names = ("a", "b", "from", "$x", "naïve", "", "self", "args", "a b", "\n", "ﬁ", "print")
            out[key] = {name: schema(chance, depth - 1) for name in chance.sample(names, chance.randrange(5))}
        elif key == "required":
            out[key] = chance.sample(("a", "b", "from", "zz", 5), chance.randrange(4))
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            out[key] = [schema(chance, depth - 1) for _ in range(chance.randrange(4))]
        elif key in ("$ref", "$dynamicRef"):
            out[key] = chance.choice(REFERENCES)
        elif key == "enum":
            out[key] = [json_value(chance, 1) for _ in range(chance.randrange(5))]
        elif key in ("description", "title", "format", "$anchor"):
            out[key] = chance.choice(("a", "text\n\nmore", '"""', "'" * 5))
        else:
            out[key] = schema(chance, depth - 1)
    return out


@pytest.mark.parametrize("seed", range(6))
def test_any_schema_gives_a_usable_function(host: Host, seed: int) -> None:
    chance = random.Random(seed)
    tools = [{"name": f"t{n}", "input_schema": schema(chance), "description": "d"} for n in range(150)]
    code = """
import inspect, pydoc
sent = refused = 0
for name in mcp_any.__all__:
    f = getattr(mcp_any, name)
    signature = inspect.signature(f)
    assert name in pydoc.render_doc(f) and str(query_tool_docs_sync('any', name, 'full'))
    for parameter in signature.parameters.values(): assert parameter.name.isidentifier()
    for values in ({}, {p: 'x' for p in signature.parameters}, {p: {} for p in signature.parameters}):
        try:
            await f(**values)
            sent += 1
        except TypeError as error:
            refused += 1
            assert str(error).startswith(f'mcp_any.{name}() ') and '\\n' in str(error), error
print(sent > 50, refused > 0)"""
    started = time.monotonic()
    outcome = host.run(code, [server("any", *tools)])
    assert outcome.status == "success", outcome.done["error"]
    assert outcome.stdout == b"True True\n"
    assert time.monotonic() - started < 20


def test_schema_that_grows_without_end_is_bounded(host: Host) -> None:
    """Each level refers twenty times to the next."""
    defs: Frame = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 20} for n in range(30)}
    defs["loop"] = {"allOf": [{"$ref": "#/$defs/loop"}] * 20, "anyOf": [{"$ref": "#/$defs/loop"}] * 20}
    for root in ("d0", "loop"):
        hostile = {"$defs": defs, "properties": {"a": {"$ref": f"#/$defs/{root}"}}, "allOf": [{"$ref": f"#/$defs/{root}"}]}
        started = time.monotonic()
        host.check("help(mcp_h.t)", [server("h", {"name": "t", "input_schema": hostile})])
        assert time.monotonic() - started < 5
