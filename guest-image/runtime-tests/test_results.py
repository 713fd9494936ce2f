"""Results of calls: values, errors, pictures and resources arrive unchanged."""

import base64
import json
import random
from typing import Any

import pytest

from host import Host, server, text, tool
from servers import silent
from values import json_value


@pytest.fixture
def host(echo: Host) -> Host:
    return echo


RESULTS: list[tuple[Any, str]] = [
    ({"structuredContent": {"a": 1}, "content": [{"type": "text", "text": '{"a": 2}'}]}, "{'a': 1}"),
    (text('{"a": [1, null]}'), "{'a': [1, None]}"),
    (text(" [1, 2]\n"), "[1, 2]"),
    (text("plain"), "'plain'"),
    (text("{not json}"), "'{not json}'"),
    (text(""), "''"),
    (text("3"), "3"),
    (text("12e4567"), "'12e4567'"),
    (text("007"), "'007'"),
    (text("1.10"), "'1.10'"),
    (text("NaN"), "'NaN'"),
    (text("-"), "'-'"),
    (text("null"), "None"),
    (text("[" * 100_000), "'" + "[" * 100_000 + "'"),
    ({"content": []}, "None"),
    ({}, "None"),
    ([1], "[1]"),
    (None, "None"),
    ({"content": "x"}, "'x'"),
    ({"content": [1, {"type": "new"}]}, "[1, {'type': 'new'}]"),
    ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": '{"b": 1}'}]}, "['a', {'b': 1}]"),
    ({"structuredContent": {"result": 5}}, "{'result': 5}"),
    ({"structuredContent": [1]}, "[1]"),
    ({"structuredContent": None, **text("x")}, "'x'"),
    ({"isError": "yes", **text("x")}, "'x'"),
    (text("ok", isError=False), "'ok'"),
]


@pytest.mark.parametrize(("payload", "expected"), RESULTS, ids=range(len(RESULTS)))
def test_out_12_results_are_plain_values(host: Host, payload: Any, expected: str) -> None:
    host.handlers["call_tool"] = lambda params: payload
    assert host.check("r = await mcp_s.echo()\nprint(repr(r))").stdout.decode() == f"{expected}\n"
    assert host.value("json.dumps(r) == json.dumps(pickle.loads(pickle.dumps(r))), type(pickle.loads(pickle.dumps(r))).__module__") == "(True, 'builtins')"
    assert host.value("type(r).__name__ not in ('DictResult', 'ListResult', 'TextResult') or r.raw == await mcp_s.echo.raw()") == "True"


def test_out_12_wrapped_values_are_unwrapped(host: Host) -> None:
    host.handlers["call_tool"] = lambda params: {"structuredContent": {"result": [1, 2]}, "content": []}
    assert host.value("await mcp_s.typed(), await mcp_s.echo(), await call_tool('s', 'typed')") == "([1, 2], {'result': [1, 2]}, [1, 2])"


def sdk_schema(title: str, **more: Any) -> Any:
    """The output schema of the official Python SDK for a tool that returns a plain value."""
    return {"type": "object", "title": title, "required": ["result"], "properties": {"result": {"type": "integer", "title": "Result"}}, **more}


WRAPPERS = [
    ("add", sdk_schema("addOutput"), True),
    ("Add", sdk_schema("AddOutput"), True),
    ("other-name", sdk_schema("addOutput"), True),
    ("add", {"x-fastmcp-wrap-result": True, "type": "object"}, True),
    ("add", sdk_schema("SumOutput"), False),
    ("add", sdk_schema("Sum"), False),
    ("add", sdk_schema("addOutput", required=[]), False),
    ("add", sdk_schema("addOutput", properties={"result": {}, "more": {}}), False),
    ("add", {"type": "object"}, False),
    ("add", None, False),
]


@pytest.mark.parametrize(("name", "schema", "wrapped"), WRAPPERS, ids=range(len(WRAPPERS)))
def test_plain_values_of_the_official_sdk_are_unwrapped(host: Host, name: str, schema: Any, wrapped: bool) -> None:
    host.handlers["call_tool"] = lambda params: {"structuredContent": {"result": 5}, "content": [{"type": "text", "text": "5"}]}
    host.check("1", [server("w", tool(name, output_schema=schema))])
    assert host.value(f"await mcp_w.call({name!r}), await call_tool('w', {name!r}), mcp_w.__mcp_tool__({name!r}).function.sync()") == repr((5 if wrapped else {"result": 5},) * 3)
    assert host.value(f"(await mcp_w.call_raw({name!r}))['structuredContent']") == "{'result': 5}"


def test_a_result_that_fastmcp_marks_as_wrapped_is_unwrapped(host: Host) -> None:
    host.handlers["call_tool"] = lambda params: {"structuredContent": {"result": [5]}, "content": [], "_meta": {"fastmcp": {"wrap_result": True}}}
    assert host.value("r = await mcp_s.echo()\nr, r.raw['structuredContent']") == "([5], {'result': [5]})"


@pytest.mark.parametrize("value", ['{"a": [1]}', " [1, 2]\n", "plain", "007", "3", "{not json}", "null", ""])
def test_wrapped_text_is_read_like_text_in_a_block(host: Host, value: str) -> None:
    host.check("1", [server("w", tool("t", output_schema=sdk_schema("tOutput")))])
    host.handlers["call_tool"] = lambda params: text(value)
    expected = host.check("print(repr(await mcp_w.t()))").stdout
    host.handlers["call_tool"] = lambda params: text(value, structuredContent={"result": value})
    assert host.check("print(repr(await mcp_w.t()))").stdout == expected


def test_docs_show_what_a_tool_returns(host: Host) -> None:
    listed = {"type": "object", "properties": {"items": {"type": "array", "items": {"type": "string"}}}, "required": ["items"]}
    host.check("1", [server("w", tool("add", output_schema=sdk_schema("addOutput")), tool("find", output_schema=listed), tool("old"))])
    assert host.check("help(mcp_w.add)").stdout.count(b"    Returns int\n") == 1
    assert b'Returns {"items": list[str]}' in host.check("print(await query_tool_docs('w', 'find', detail='full'))").stdout
    assert b"Returns" not in host.check("help(mcp_w.old)\nprint(await query_tool_docs('w', 'old', detail='full'))").stdout
    assert host.value("(await query_tool_docs('w', 'add', detail='full'))['outputSchema']['title']") == "'addOutput'"
    doc = {"server": "far", "tool": "add", "inputSchema": {}, "outputSchema": sdk_schema("addOutput")}
    host.handlers["search_tool_docs"] = lambda params: {"results": [doc]}
    assert b"Returns int" in host.check("print(await search_tool_docs('add', detail='full'))").stdout
    assert host.value("'outputSchema' in (await search_tool_docs('add'))[0]") == "False"


PNG = base64.b64encode(b"\x89PNG\r\n").decode()
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(60)
IMAGE = {"type": "image", "data": base64.b64encode(PICTURE).decode(), "mimeType": "image/png"}


@pytest.mark.parametrize(
    ("structured", "told"),
    [
        ({"width": 3}, "{'width': 3}"),
        ({"width": 3, "data": IMAGE["data"]}, "{'width': 3, 'data': <image/png, 68 bytes>}"),
        ({"parts": [{"data": IMAGE["data"]}]}, "{'parts': [{'data': <image/png, 68 bytes>}]}"),
        ([1, IMAGE["data"]], "[1, <image/png, 68 bytes>]"),
    ],
)
def test_a_picture_beside_structured_content_is_shown(host: Host, structured: Any, told: str) -> None:
    host.handlers["call_tool"] = lambda params: {"structuredContent": structured, "content": [{"type": "text", "text": "x"}, IMAGE]}
    outcome = host.check("r = await mcp_s.echo()\nshow(r)")
    assert (outcome.displays, outcome.stdout.decode()) == ([("image/png", PICTURE)], told + "\n")
    outcome = host.check("r")
    assert (outcome.displays, outcome.result) == ([("image/png", PICTURE)], told)


@pytest.mark.parametrize("structured", [IMAGE, {"result": IMAGE}, {"result": [IMAGE]}])
def test_structured_content_that_is_a_picture_is_one(host: Host, structured: Any) -> None:
    host.handlers["call_tool"] = lambda params: {"structuredContent": structured, "content": [IMAGE]}
    outcome = host.check("show(await mcp_s.typed())")
    assert (outcome.displays, outcome.stdout) == ([("image/png", PICTURE)], b"")


def test_out_11_images_are_bytes(host: Host) -> None:
    content = [
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        {"type": "audio", "data": PNG, "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "x:/1", "mimeType": "application/pdf", "blob": PNG}},
        {"type": "resource", "resource": {"uri": "x:/2", "text": "hello"}},
        {"type": "resource_link", "uri": "x:/3", "name": "three", "mimeType": "text/plain", "size": 3},
        {"type": "image", "data": "a", "mimeType": "image/png"},
    ]
    host.handlers["call_tool"] = lambda params: {"content": content}
    assert host.value("a, b, c, d, e, f = await mcp_s.echo()\na, b, c, d, e") == (
        "(<image/png, 6 bytes>, <audio/wav, 6 bytes>, <application/pdf, 6 bytes>, 'hello', <resource 'three' at x:/3>)"
    )
    assert host.value("a == b'\\x89PNG\\r\\n', a.data, a.mime, c.uri, type(a.data), e.uri, e.mime, e.size, f['data']") == (
        "(True, b'\\x89PNG\\r\\n', 'image/png', 'x:/1', <class 'bytes'>, 'x:/3', 'text/plain', 3, 'a')"
    )
    assert host.value("again = pickle.loads(pickle.dumps([a, e]))\nagain == [a, e], again[0].mime, memoryview(a).nbytes") == "(True, 'image/png', 6)"
    host.handlers["call_tool"] = lambda params: {"content": content[:1]}
    assert host.value("print(await mcp_s.echo())\n(await mcp_s.echo()).raw['mimeType']") == "'image/png'"


def test_resources_and_prompts_can_be_read(host: Host) -> None:
    host.handlers["list_resources"] = lambda params: {"resources": [{"uri": "x:/1", "name": "one"}]}
    host.handlers["read_resource"] = lambda params: {"contents": [{"uri": params["uri"], "text": "{}"}]}
    host.handlers["list_prompts"] = lambda params: [{"name": "p"}]
    host.handlers["get_prompt"] = lambda params: {"description": "d", "messages": [{"role": "user", "content": {"type": "text", "text": str(params)}}]}
    assert host.value("await mcp_s.resources(), await mcp_s.prompts(), await mcp_s.read_resource('x:/1')") == "([{'uri': 'x:/1', 'name': 'one'}], [{'name': 'p'}], '{}')"
    assert host.value("r = await mcp_s.prompt('p', name='n', count=3)\nr[0]['role'], json.loads(r[0]['content'].replace(\"'\", '\"'))['arguments'], r.raw['description']") == "('user', {'name': 'n', 'count': '3'}, 'd')"
    host.handlers["read_resource"] = lambda params: {"contents": [{"uri": "a", "blob": PNG, "mimeType": "image/png"}, {"uri": "b", "text": "t"}]}
    assert host.value("await mcp_s.read_resource('x:/1')") == "[<image/png, 6 bytes>, 't']"


def exact(value: Any) -> str:
    """A text that differs where `==` does not: for 1, 1.0 and True, and for the order of keys."""
    return json.dumps(value, sort_keys=False)


@pytest.mark.parametrize("seed", range(8))
def test_values_survive_the_way_to_the_host_and_back(host: Host, seed: int) -> None:
    chance = random.Random(seed)
    values = [json_value(chance) for _ in range(60)]
    code = f"values = json.loads({json.dumps(values)!r})\nfor v in values:\n    r = (await mcp_s.echo(v=v))['v']\n    assert json.dumps(r) == json.dumps(v), (r, v)"
    host.check(code)
    assert [exact(request["params"]["arguments"]["v"]) for request in host.requests] == [exact(value) for value in values]
    texts = [exact(value) for value in values]
    results = iter(texts)
    host.handlers["call_tool"] = lambda params: text(next(results))
    host.check("for v in values:\n    r = await mcp_s.echo()\n    assert json.dumps(r) == json.dumps(v) or isinstance(r, str) and float(r) == v, (r, v)")


def test_integers_of_thousands_of_digits_become_text(host: Host) -> None:
    host.handlers["call_tool"] = silent
    host.execute("(await mcp_s.echo())['n']")
    call = host.until_requests(1)[0]["call"]
    digits = "7" * 6000
    payload = f'{{"structuredContent":{{"n":{digits}}}}}'
    host.guest.write(f'{{"type":"rpc_response","call":{call},"success":true,"payload":{payload}}}\n'.encode())
    assert host.collect().result == repr(digits)


def test_error_with_structured_content_only_has_a_message(host: Host) -> None:
    host.handlers["call_tool"] = lambda params: {
        "content": [],
        "structuredContent": {"code": 7, "why": "nö"},
        "isError": True,
    }
    code = "try: await mcp_s.echo()\nexcept runtime.ToolError as e: print(e, '|', e.text, e.structured)"
    told = host.check(code).stdout.decode()
    assert told == "s.echo: {\"code\": 7, \"why\": \"nö\"} |  {'code': 7, 'why': 'nö'}\n"


@pytest.mark.parametrize("content", ["plain", {"type": "text", "text": "plain"}])
def test_content_that_is_not_a_list_is_accepted(host: Host, content: Any) -> None:
    host.handlers["call_tool"] = lambda params: {"content": content}
    assert host.value("await mcp_s.echo()") == "'plain'"
