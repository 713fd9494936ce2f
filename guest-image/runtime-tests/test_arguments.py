"""Calls of servers' tools: names, signatures, and checks before anything is sent."""

import re
from typing import Any

import pytest

from guest import Frame
from host import Host, server
from servers import INTEGER, STRING, refused, sent


@pytest.mark.parametrize(
    ("code", "wire", "arguments"),
    [
        ("await mcp_git_hub.get_user(id=1)", "get-user", {"id": 1}),
        ("await mcp_git_hub.a_b(n=1)", "a.b", {"n": 1}),
        ("await mcp_git_hub.call('a.b', n=1)", "a.b", {"n": 1}),
        ("await mcp_servers['git-hub'].call('naïve')", "naïve", {}),
        ("await mcp_servers['git_hub'].na_ve()", "naïve", {}),
        ("await mcp_git_hub._1st()", "1st", {}),
        ("await mcp_git_hub.getUser()", "getUser", {}),
        ("await mcp_git_hub.getuser()", "getUser", {}),
        ("await mcp_git_hub.call('call')", "call", {}),
        ("await mcp_git_hub.call_()", "call", {}),
        ("await mcp_git_hub.prompts()", "prompts", {}),
        ("await mcp_git_hub.call('''x y\\n\"\\'\\'\\'''')", "x y\n\"'''", {}),
        ("await mcp_git_hub.call('__class__')", "__class__", {}),
        ("await runtime.call_tool('git-hub', 'a.b', {'n': 2})", "a.b", {"n": 2}),
        ("await call_tool('git_hub', 'a_b', {'n': 2})", "a.b", {"n": 2}),
        ("mcp_git_hub.a_b.sync(n=3)", "a.b", {"n": 3}),
        ("call_tool_sync('git-hub', 'a.b', {'n': 3})", "a.b", {"n": 3}),
        ("from mcp.servers.git_hub import get_user\nawait get_user(id=4)", "get-user", {"id": 4}),
        ("from mcp.servers.git_hub import *\nawait a_b()", "a.b", {}),
    ],
)
def test_nam_01_tools_with_any_name_are_callable(shared_host: Host, code: str, wire: str, arguments: Frame) -> None:
    assert sent(shared_host, code) == {"server": "git-hub", "tool": wire, "arguments": arguments}


def test_nam_01_docs_show_both_names(shared_host: Host) -> None:
    lines = shared_host.value("query_tool_docs_sync('git-hub')")
    assert lines and "mcp_git_hub.a_b(n=…) = git-hub.a.b" in lines
    doc = shared_host.value("await query_tool_docs('git-hub', 'a.b', detail='full')")
    assert doc and "mcp_git_hub.a_b" in doc and "mcp_git_hub.call('a.b', ...)" in doc


@pytest.mark.parametrize(
    ("given", "wire"),
    [
        ("**{'from': 1}", {"from": 1}),
        ("from_=1", {"from_": 1}),
        ("from__2=1", {"from": 1}),
        ("class_=1", {"class": 1}),
        ("cik_A=1", {"cik-A": 1}),
        ("_top=1", {"$top": 1}),
        ("_type=1", {"@type": 1}),
        ("None_=1", {"None": 1}),
        ("**{'$top': 2, 'None': 3}", {"$top": 2, "None": 3}),
    ],
)
def test_nam_02_keywords_and_other_characters_as_arguments(shared_host: Host, given: str, wire: Frame) -> None:
    assert sent(shared_host, f"await mcp_git_hub.import_({given})")["arguments"] == wire


def test_nam_02_argument_given_by_two_names_is_rejected(shared_host: Host) -> None:
    assert "got class_ twice" in refused(shared_host, "await mcp_git_hub.import_(class_=1, **{'class': 2})")


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ("", {}),
        (", body=None", {"body": None}),
        (", body=''", {"body": ""}),
        (", labels=[]", {"labels": []}),
        (", labels=('a',)", {"labels": ["a"]}),
        (", state=None", {"state": None}),
    ],
)
def test_nam_04_omitted_arguments_are_not_sent(shared_host: Host, given: str, arguments: Frame) -> None:
    params = sent(shared_host, f"await mcp_github.create_issue(owner='', repo='r', title='t'{given})")
    assert params["arguments"] == {"owner": "", "repo": "r", "title": "t", **arguments}


def test_nam_04_false_and_zero_are_kept(shared_host: Host) -> None:
    params = sent(shared_host, "await call_tool('git-hub', 'a.b', {'a': 0, 'b': False, 'c': None, 'd': 0.0})")
    assert params["arguments"] == {"a": 0, "b": False, "c": None, "d": 0.0}


NODE = {"type": "object", "properties": {"value": INTEGER, "next": {"$ref": "#/$defs/Node"}}, "required": ["value"]}


@pytest.mark.parametrize(
    ("schema", "signature"),
    [
        ({"$defs": {"Node": NODE}, "properties": {"node": {"$ref": "#/$defs/Node"}}}, "(node: dict = ...)"),
        ({"$defs": {"Node": NODE}, "$ref": "#/$defs/Node"}, "(value: int, *, next: dict = ...)"),
        ({"$defs": {"A": {"$ref": "#/$defs/A"}}, "properties": {"a": {"$ref": "#/$defs/A"}}}, "(a: Any = ...)"),
        ({"$ref": "#"}, "(**more)"),
        ({"properties": {"again": {"$ref": "#"}}}, "(again: Any = ...)"),
        (
            {"$defs": {"A": {"properties": {"a": STRING}, "required": ["a"]}}, "allOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": INTEGER}}]},
            "(a: str, *, b: int = ...)",
        ),
        ({"properties": {"a": {"$ref": "http://127.0.0.1:9/x.json"}}, "required": ["a"]}, "(a: Any)"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "(a: Any = ...)"),
        ({"properties": {"a": {"$ref": "#/$defs/a~1b%20c"}}, "$defs": {"a/b c": STRING}}, "(a: str = ...)"),
        ({"properties": {"a": {"$ref": "#here"}}, "$defs": {"x": {"$anchor": "here", "type": "boolean"}}}, "(a: bool = ...)"),
        ({"anyOf": [{"properties": {"a": STRING}}, {"properties": {"b": STRING}}]}, "(*, a: str = ..., b: str = ...)"),
        ({"properties": {"a": {"type": ["string", "null"]}}}, "(a: str | None = ...)"),
        ({"properties": {"a": {"type": "string", "nullable": True}}}, "(a: str | None = ...)"),
        ({"properties": {"a": {"enum": ["x", None, 3]}}}, "(a: Literal['x', 3] | None = ...)"),
        ({"properties": {"a": {"const": True}}}, "(a: Literal[True] = ...)"),
        ({"properties": {"a": {"oneOf": [STRING, {"type": "array", "items": INTEGER}]}}}, "(a: str | list[int] = ...)"),
        ({"properties": {"a": {"type": "integer", "default": 5}}}, "(a: int = 5)"),
        ({"properties": {"a": STRING}, "if": {}, "then": {"required": ["b"]}}, "(*, a: str = ..., b: Any = ...)"),
        ({"properties": {"a": True, "b": {"not": {}}, "c": 7}}, "(*, a: Any = ..., b: Any = ..., c: Any = ...)"),
        ({"properties": {}, "additionalProperties": False}, "()"),
        ({"properties": {"more": STRING}, "additionalProperties": True}, "(more: str = ..., **more_)"),
        ({"required": ["a"], "properties": {}}, "(a: Any)"),
        (True, "(**more)"),
        (None, "(**more)"),
        ({"properties": [1], "required": "a", "allOf": {}, "type": 5}, "(**more)"),
    ],
)
def test_nam_05_references_and_recursion_give_signatures(shared_host: Host, schema: Any, signature: str) -> None:
    servers = [server("schemas", {"name": "t", "input_schema": schema})]
    code = "import inspect, io, contextlib\nout = io.StringIO()\nwith contextlib.redirect_stdout(out): help(mcp_schemas.t)\n"
    code += "print(inspect.signature(mcp_schemas.t))"
    printed = shared_host.check(code, servers).stdout.decode().strip()
    # Before Python 3.14 some unions print as `Optional[...]`.
    assert re.sub(r"Optional\[(.*)\] =", r"\1 | None =", printed) == signature


def test_nam_08_positional_arguments(shared_host: Host) -> None:
    assert sent(shared_host, "await mcp_git_hub.get_user(5)")["arguments"] == {"id": 5}
    assert sent(shared_host, "await mcp_git_hub.a_b(5)")["arguments"] == {"n": 5}
    told = refused(shared_host, "await mcp_github.create_issue('acme', 'web')")
    assert "mcp_github.create_issue() takes named arguments: create_issue(owner='acme', repo='web', title=...)" in told
    assert "create_issue(**{'owner': 'a'})" in refused(shared_host, "await mcp_github.create_issue({'owner': 'a'})")
    assert "got id twice" in refused(shared_host, "await mcp_git_hub.get_user(5, id=6)")


def test_wrong_call_is_rejected_before_it_is_sent(shared_host: Host) -> None:
    told = refused(shared_host, "await mcp_github.create_issue(owner='a', repo='b', tittle='x')").split("\n")
    assert told == [
        "TypeError: mcp_github.create_issue() is missing: title (string); has no argument: tittle (did you mean title?)",
        "create_issue(*, owner: str, repo: str, title: str, body: str | None = ..., labels: list[str] = ..., "
        "state: Literal['open', 'closed'] = 'open')",
        f"  cell {shared_host.guest.last}, line 1: await mcp_github.create_issue(owner='a', repo='b', tittle='x')",
    ]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("title=3", "title must be string, not int: 3"),
        ("title=None", "title must be string, not NoneType: None"),
        ("title='t', body=b'x'", "body must be string or null, not bytes: b'x'"),
        ("title='t', state='opne'", "state must be one of 'open', 'closed', not 'opne' (did you mean open?)"),
        ("title='t', labels='a'", "labels must be array, not str: 'a'"),
    ],
)
def test_value_of_the_wrong_type_is_rejected(shared_host: Host, given: str, told: str) -> None:
    assert told in refused(shared_host, f"await mcp_github.create_issue(owner='a', repo='b', {given})")


@pytest.mark.parametrize(
    ("value", "fits"),
    [("1", True), ("1.0", True), ("True", False), ("1.5", False), ("'1'", False), ("2**200", True)],
)
def test_integer_arguments_accept_whole_numbers(shared_host: Host, value: str, fits: bool) -> None:
    code = f"await mcp_git_hub.get_user(id={value})"
    if fits:
        assert sent(shared_host, code)["arguments"] == {"id": eval(value)}
    else:
        assert "id must be integer" in refused(shared_host, code)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("{'a': [1, float('nan')]}", "x.a[1] is not JSON: nan"),
        ("[b'x']", "x[0] is not JSON: bytes: decode it, or base64.b64encode(it).decode()"),
        ("__import__('datetime').datetime.now()", "x is not JSON: datetime: use .isoformat()"),
        ("{1, 2}", "x is not JSON: set: use list(it)"),
        ("{'k': {(1, 2): 3}}", "x.k is not JSON: the key (1, 2) is not a string"),
        ("'a\\ud800'", "x is not JSON: it holds a lone surrogate"),
        ("10**5000", "x is not JSON: an integer too long"),
        ("(lambda a: a.append(a) or a)([])", "nested too deeply, or contain themselves"),
        ("mcp_git_hub._1st()", "x is not JSON: coroutine: await it first"),
    ],
)
def test_values_that_are_not_json_are_rejected(shared_host: Host, value: str, told: str) -> None:
    code = f"import warnings\nwarnings.simplefilter('ignore')\nawait call_tool('github', 'create_issue', {{'x': {value}}})"
    assert f"TypeError: github.create_issue: {'the arguments are ' if told[0] == 'n' else ''}{told}" in refused(shared_host, code)
    assert shared_host.value("(await call_tool('git-hub', '1st', {'ok': 1}))['ok']") == "1"


def test_arguments_that_python_normalises_can_be_given(shared_host: Host) -> None:
    schema = {"properties": {"µ": STRING, "ﬁle": STRING, "e\u0301": STRING, " ": STRING}, "additionalProperties": False}
    shared_host.check("1", [server("odd", {"name": "t", "input_schema": schema})])
    params = sent(shared_host, "await mcp_odd.t(µ='a', ﬁle='b', e\u0301='c')")
    assert params["arguments"] == {"µ": "a", "ﬁle": "b", "e\u0301": "c"}
    doc = shared_host.value("await query_tool_docs('odd', 't', detail='full')")
    assert doc and "sent as ' '" in doc
