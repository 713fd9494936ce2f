"""Servers as modules: names, signatures, checks before a call, errors, docs. Each test is named after what went wrong."""

from collections.abc import Iterator
from pathlib import Path
import re
from typing import Any

import pytest

from guest import Frame
from host import Fail, Host, host_at, server, text, tool

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
ISSUE = tool(
    "create_issue",
    {
        "owner": STRING,
        "repo": STRING,
        "title": {"type": "string", "description": "The title"},
        "body": {"anyOf": [STRING, {"type": "null"}]},
        "labels": {"type": "array", "items": STRING},
        "state": {"enum": ["open", "closed"], "default": "open"},
    },
    ["owner", "repo", "title"],
    description="Create a new issue in a repository",
)
ODD = server(
    "git-hub",
    tool("get-user", {"id": INTEGER}, ["id"]),
    tool("a.b", {"n": INTEGER}),
    tool("1st"),
    tool("naïve"),
    tool("import", dict.fromkeys(("from", "class", "cik-A", "$top", "@type", "None", "from_"), INTEGER)),
    tool("getUser"),
    tool("call"),
    tool("prompts"),
    tool("x y\n\"'''"),
    tool("__class__"),
)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = host_at(tmp_path)
    yield made
    made.guest.close()


@pytest.fixture(scope="module")
def shared_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    made = host_at(tmp_path_factory.mktemp("workspace"))
    made.check("import asyncio, json, pickle", [server("github", ISSUE), ODD], ["jira", "mem-o"])
    yield made
    made.guest.close()


def sent(host: Host, code: str) -> Frame:
    """The parameters of the one call that the code makes."""
    before = len(host.requests)
    host.check(code)
    assert len(host.requests) == before + 1
    params = host.requests[-1]["params"]
    assert isinstance(params, dict)
    return params


def refused(host: Host, code: str) -> str:
    """The error of code that must fail before anything is sent."""
    before = len(host.requests)
    outcome = host.run(code)
    assert outcome.status == "error", outcome.done
    assert len(host.requests) == before, "something was sent"
    return outcome.traceback


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
def test_nam_01_odd_names_are_not_callable(shared_host: Host, code: str, wire: str, arguments: Frame) -> None:
    assert sent(shared_host, code) == {"server": "git-hub", "tool": wire, "arguments": arguments}


def test_nam_01_docs_show_only_one_of_the_names(shared_host: Host) -> None:
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
def test_nam_02_keywords_and_odd_characters_as_arguments(shared_host: Host, given: str, wire: Frame) -> None:
    assert sent(shared_host, f"await mcp_git_hub.import_({given})")["arguments"] == wire


def test_nam_02_one_argument_by_two_names(shared_host: Host) -> None:
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
def test_nam_04_omitted_is_sent_as_null(shared_host: Host, given: str, arguments: Frame) -> None:
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
        ({"properties": {"a": True, "b": {"not": {}}, "c": 7}}, "(*, a: Any = ..., b: Any = ..., c: Any = ...)"),
        ({"properties": {}, "additionalProperties": False}, "()"),
        ({"properties": {"more": STRING}, "additionalProperties": True}, "(more: str = ..., **more_)"),
        ({"required": ["a"], "properties": {}}, "(a: Any)"),
        (True, "(**more)"),
        (None, "(**more)"),
        ({"properties": [1], "required": "a", "allOf": {}, "type": 5}, "(**more)"),
    ],
)
def test_nam_05_references_and_recursion_crash_or_lose_fields(shared_host: Host, schema: Any, signature: str) -> None:
    servers = [server("schemas", {"name": "t", "input_schema": schema})]
    code = "import inspect, io, contextlib\nout = io.StringIO()\nwith contextlib.redirect_stdout(out): help(mcp_schemas.t)\n"
    code += "print(inspect.signature(mcp_schemas.t))"
    printed = shared_host.check(code, servers).stdout.decode().strip()
    # Before Python 3.14, some unions print in the old way.
    assert re.sub(r"Optional\[(.*)\] =", r"\1 | None =", printed) == signature


def test_nam_08_positional_use_fails_obscurely(shared_host: Host) -> None:
    assert sent(shared_host, "await mcp_git_hub.get_user(5)")["arguments"] == {"id": 5}
    assert sent(shared_host, "await mcp_git_hub.a_b(5)")["arguments"] == {"n": 5}
    told = refused(shared_host, "await mcp_github.create_issue('acme', 'web')")
    assert "mcp_github.create_issue() takes named arguments: create_issue(owner='acme', repo='web', title=...)" in told
    assert "create_issue(**{'owner': 'a'})" in refused(shared_host, "await mcp_github.create_issue({'owner': 'a'})")
    assert "got id twice" in refused(shared_host, "await mcp_git_hub.get_user(5, id=6)")


def test_a_wrong_call_is_sent(shared_host: Host) -> None:
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
def test_a_value_of_the_wrong_kind_is_sent(shared_host: Host, given: str, told: str) -> None:
    assert told in refused(shared_host, f"await mcp_github.create_issue(owner='a', repo='b', {given})")


@pytest.mark.parametrize(
    ("value", "fits"),
    [("1", True), ("1.0", True), ("True", False), ("1.5", False), ("'1'", False), ("2**200", True)],
)
def test_integers(shared_host: Host, value: str, fits: bool) -> None:
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
        ("{'k': {(1, 2): 3}}", "x.k is not JSON: the key (1, 2) is no string"),
        ("'a\\ud800'", "x is not JSON: it holds a lone surrogate"),
        ("10**5000", "x is not JSON: an integer too long"),
        ("(lambda a: a.append(a) or a)([])", "nested too deeply, or contain themselves"),
        ("mcp_git_hub._1st()", "x is not JSON: coroutine: await it first"),
    ],
)
def test_what_is_no_json_is_sent_as_something_else(shared_host: Host, value: str, told: str) -> None:
    code = f"import warnings\nwarnings.simplefilter('ignore')\nawait call_tool('github', 'create_issue', {{'x': {value}}})"
    assert f"TypeError: github.create_issue: {'the arguments are ' if told[0] == 'n' else ''}{told}" in refused(shared_host, code)
    assert shared_host.value("(await call_tool('git-hub', '1st', {'ok': 1}))['ok']") == "1"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("mcp_jira", 'NameError: mcp_jira: server "jira" is known but not loaded; call run_python with servers=["jira"]'),
        ("await mcp_jira.search(q=1)", 'NameError: mcp_jira: server "jira" is known but not loaded; call run_python with servers=["jira"]'),
        ("await mcp_mem_o.x()", 'NameError: mcp_mem_o: server "mem-o" is known but not loaded; call run_python with servers=["mem-o"]'),
        ("await mcp_jirra.x()", 'NameError: mcp_jirra: no server "jirra"; known: git-hub, github, jira, mem-o'),
        ("mcp_servers['jira']", 'KeyError: server "jira" is known but not loaded; call run_python with servers=["jira"]'),
        ("mcp_servers['jirra']", "(did you mean jira?)"),
        ("from mcp.servers.jira import x", 'ImportError: server "jira" is known but not loaded; call run_python with servers=["jira"]'),
        ("import mcp.servers.mem_o", 'ImportError: server "mem-o" is known but not loaded'),
        ("from mcp.servers.github import creat_issue", "ImportError: cannot import name 'creat_issue'"),
        ("await call_tool('jira', 'x')", 'NameError: server "jira" is known but not loaded; call run_python with servers=["jira"]'),
        ("await list_tools('nope')", 'NameError: no server "nope"; known:'),
        ("await mcp_github.create_isue()", 'AttributeError: server "github" has no tool create_isue (did you mean create_issue?)'),
        ("await mcp_github.call('nope')", 'NameError: server "github" has no tool nope; it has: create_issue'),
        ("hasattr(mcp_github, '__wrapped__') or 1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_missing_server_or_tool_is_not_explained(shared_host: Host, code: str, told: str) -> None:
    assert told in refused(shared_host, code)


def test_a_missing_server_cannot_be_caught(shared_host: Host) -> None:
    code = "try: await mcp_jira.x()\nexcept NameError as e: print(e)\n"
    code += "try: mcp_servers['jira']\nexcept KeyError as e: print(e)\n"
    code += "try: await call_tool('jira', 'x')\nexcept runtime.MCPError as e: print(e)\n'mcp_jira' in globals(), mcp_servers.get('jira')"
    outcome = shared_host.check(code)
    text = b'server "jira" is known but not loaded; call run_python with servers=["jira"]'
    assert [line.removeprefix(b"mcp_jira: ") for line in outcome.stdout.splitlines()] == [text] * 3
    assert outcome.result == "(False, None)"


def test_a_server_that_did_not_start_is_said_to_be_not_loaded(host: Host) -> None:
    why = 'server "jira" did not start: exited with code 1 after 0.4 s; stderr: JIRA_TOKEN is not set'
    failed = [{"name": "jira", "message": why}, {"name": "x-y", "message": "no token"}]
    for code in (
        "await mcp_jira.x()",
        "mcp_jira",
        "mcp_servers['jira']",
        "from mcp.servers.jira import x",
        "import mcp.servers.jira",
        "from mcp.servers import jira",
        "await call_tool('jira', 'x')",
    ):
        outcome = host.run(code, [], ["jira", "x-y", "z"], failed)
        assert outcome.traceback.startswith(f"MCPError: {why}"), code
    outcome = host.run("await mcp_x_y.x()", [], [], failed)
    assert 'MCPError: server "x-y" cannot be used: no token' in outcome.traceback
    code = "try: mcp_jira.x\nexcept runtime.MCPError as e: print(e.server)\n'jira' in LOADED_MCP_SERVERS"
    outcome = host.run(code, [], [], failed)
    assert (outcome.stdout, outcome.result) == (b"jira\n", "False")
    # When it is not asked for any more, it is like any other; and when it comes up, it is there.
    assert "known but not loaded" in host.run("mcp_jira.x", [], ["jira"]).traceback
    assert host.value("mcp_jira.x.__name__", [server("jira", tool("x"))], []) == "'x'"
    outcome = host.run("await mcp_jira.x()", [server("jira", error=why)], [])
    assert f"MCPError: {why}" in outcome.traceback


def test_a_server_asked_for_later_has_no_proxy(host: Host) -> None:
    assert "not loaded" in host.run("mcp_github.x", [], ["github"]).traceback
    assert host.value("mcp_github.create_issue.__name__, LOADED_MCP_SERVERS", [server("github", ISSUE)], []) == "('create_issue', ('github',))"
    assert host.value("'mcp_github' in vars(__builtins__)") == "False"
    assert host.value("mcp_servers['github'] is mcp_github") == "True"


def test_tra_10_stale_tools(host: Host) -> None:
    host.check("f, g = mcp_s.t1, mcp_s.t2", [server("s", tool("t1", {"a": STRING}), tool("t2"))])
    host.check("await f(b=1)\nmcp_s.t3", [server("s", tool("t1", {"b": INTEGER}), tool("t3"))])
    assert "MCPError: s.t2 is no longer offered by its server" in refused(host, "await g()")
    assert 'AttributeError: server "s" no longer offers t2' in refused(host, "mcp_s.t2")
    host.handlers["list_tools"] = lambda params: [tool("t4", description="d")]
    assert host.value("await list_tools('s'), [t['name'] for t in list_tools_sync('s')]") == (
        "([{'name': 't4', 'alias': 't4', 'description': 'd', 'input_schema': {'type': 'object', 'properties': {}, "
        "'required': []}}], ['t1', 't3'])"
    )
    assert host.value("mcp_s.t2 is g, f is mcp_s.t1", [server("s", tool("t1"), tool("t2"))]) == "(True, True)"


def test_functions_look_unlike_functions(shared_host: Host) -> None:
    code = (
        "import inspect\nf = mcp_github.create_issue\n"
        "print(f.__name__, f.__qualname__, f.__module__, inspect.iscoroutinefunction(f), f.__annotations__['title'])\n"
        "print(pickle.loads(pickle.dumps(f)) is f, pickle.loads(pickle.dumps(mcp_github)) is mcp_github)\n"
        "print(f.tool, f.server, 'create_issue' in dir(mcp_github))\nhelp(f)\nhelp(mcp_github)"
    )
    printed = shared_host.check(code).stdout.decode()
    asynchronous = shared_host.guest.version >= (3, 12)
    assert printed.startswith(
        f"create_issue create_issue mcp.servers.github {asynchronous} <class 'str'>\nTrue True\ncreate_issue github True\n"
    )
    # Newer versions of pydoc break long signatures.
    assert " ".join(printed.split()).replace("( *", "(*").count("create_issue(*, owner: str, repo: str, title: str, body: str | None = ...") == 2
    assert "title   string, required. The title" in printed
    assert "state   one of 'open', 'closed', default 'open'" in printed


EVIL = '"""\nimport os; os.system("touch /tmp/pwn")\n"""\n\'\'\'{0}%s{{}}\\'


def test_sec_01_descriptions_become_code(host: Host) -> None:
    evil = [
        server(EVIL, tool(EVIL, {EVIL: {"type": "string", "description": EVIL, "enum": [EVIL], "default": EVIL}}, [EVIL], description=EVIL), description=EVIL),
        server("x\n); import os", tool("t", {"a=1, b": STRING, "lambda: 0": STRING, "": STRING})),
        server("servers", tool("t")),
        server("", tool("")),
    ]
    code = """
import inspect, os
for name, module in mcp_servers.items():
    help(module)
    for alias in module.__all__:
        f = getattr(module, alias)
        help(f), inspect.signature(f), str(query_tool_docs_sync(name, detail="full")), repr(module)
        print(await module.call(f.tool, **{p: EVIL for p in inspect.signature(f).parameters}))
os.path.exists('/tmp/pwn'), type(mcp_servers).__name__, len(mcp_servers), mcp_servers_.t.__name__
""".replace("EVIL", repr(EVIL))
    assert host.value(code, evil) == "(False, 'Servers', 4, 't')"
    assert [request["params"]["server"] for request in host.requests] == [one["name"] for one in evil]
    assert host.requests[0]["params"] == {"server": EVIL, "tool": EVIL, "arguments": {EVIL: EVIL}}
    assert host.requests[1]["params"]["arguments"] == {"a=1, b": EVIL, "lambda: 0": EVIL, "": EVIL}


def test_malformed_servers_stop_the_run(host: Host) -> None:
    entries: Any = [5, {}, {"name": 3}, {"name": "a", "tools": 7}, {"name": "b", "tools": [1, {}, {"name": 4}, {"name": "t", "input_schema": "x"}]}]
    assert host.value("await mcp_b.t(x=1), LOADED_MCP_SERVERS, mcp_a", entries, [3, {}, None, "k"]) == (
        "({'x': 1}, ('a', 'b'), <mcp_a: 0 tools: >)"
    )


def test_out_14_tool_errors_are_values_or_cannot_be_caught(host: Host) -> None:
    host.handlers["call_tool"] = lambda params: text('404 Not Found (repository "acme/web")', isError=True, structuredContent={"code": 404})
    code = "await mcp_github.create_issue(owner='acme', repo='web', title='x')"
    outcome = host.run(code, [server("github", ISSUE)])
    assert outcome.error["type"] == "ToolError"
    assert outcome.traceback.split("\n") == [
        'ToolError: github.create_issue: 404 Not Found (repository "acme/web")',
        f"  cell 1, line 1: {code}",
    ]
    caught = f"try: {code}\nexcept runtime.MCPError as e: caught = e\ncaught.server, caught.tool, caught.text, caught.structured, type(caught) is ToolError, caught.raw['isError']"
    assert host.value(caught) == "('github', 'create_issue', '404 Not Found (repository \"acme/web\")', {'code': 404}, True, True)"
    assert host.value("import pickle\nagain = pickle.loads(pickle.dumps(caught))\nstr(again) == str(caught), again.tool") == "(True, 'create_issue')"
    nested = f"async def go():\n    {code}\nawait go()"
    assert host.run(nested).traceback == (
        "Traceback (most recent call last):\n  cell 4, line 3, in <module>\n    await go()\n  cell 4, line 2, in go\n"
        f"    {code}\n" + 'ToolError: github.create_issue: 404 Not Found (repository "acme/web")'
    ).replace("cell 4", f"cell {host.guest.last}")
    assert host.value(f"(await mcp_github.create_issue.raw{code.removeprefix('await mcp_github.create_issue')})['isError']") == "True"


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("kind", ["ToolError", "MCPError", "NameError", "PermissionError", "TimeoutError", "Whatever"])
def test_errors_of_the_host_lose_their_type(host: Host, kind: str, sync: bool) -> None:
    def fail(params: Frame) -> Any:
        raise Fail(kind, "github.x is denied by policy (rule 3)", {"server": "github", "tool": "x", "details": {"rule": 3}})

    host.handlers["call_tool"] = fail
    call = "call_tool_sync('github', 'x')" if sync else "await call_tool('github', 'x')"
    shown = "MCPError" if kind == "Whatever" else kind
    outcome = host.run(call, [server("github", ISSUE)])
    assert outcome.error["type"] == shown
    assert outcome.traceback == f"{shown}: github.x is denied by policy (rule 3)\n  cell 1, line 1: {call}"
    python = kind if kind in ("NameError", "PermissionError", "TimeoutError") else "RuntimeError"
    code = f"try: {call}\nexcept {python} as e: caught = e\nisinstance(caught, MCPError), caught.server, caught.details, str(caught)"
    assert host.value(code) == "(True, 'github', {'rule': 3}, 'github.x is denied by policy (rule 3)')"


def test_malformed_errors_of_the_host(host: Host) -> None:
    host.execute("try: await call_tool('github', 'x')\nexcept MCPError as e: print(e)", [server("github", ISSUE)])
    request = host.guest.next()
    host.guest.send(type="rpc_response", call="x", success=True)
    host.guest.send(type="rpc_response", call=request["call"] + 1000, success=True)
    host.guest.send(type="rpc_response", call=request["call"], success="yes")
    assert host.collect().stdout == b"the host gave no reason: None\n"


SEARCH = [
    {"server": "github", "serverAlias": "github", "tool": "create_issue", "toolAlias": "create_issue", "description": "Create a new issue in a repository\n\nMore.", "inputSchema": ISSUE["input_schema"]},
    {"server": "jira", "serverAlias": "jira", "tool": "create_issue", "toolAlias": "create_issue", "description": "Create an issue", "inputSchema": {"properties": {"project": {}, "summary": {}, "x": {}}, "required": ["project", "summary"]}},
]


@pytest.mark.parametrize("form", ["list", "object"])
def test_search_prints_json(host: Host, form: str) -> None:
    host.handlers["search_tool_docs"] = lambda params: SEARCH if form == "list" else {"results": SEARCH, "notStarted": ["slow"]}
    outcome = host.check("docs = await search_tool_docs('open issue')\nprint(docs)", [server("github", ISSUE)])
    lines = outcome.stdout.decode().splitlines()
    assert lines[:2] == [
        "github.create_issue(owner, repo, title, body=…, labels=…, state=…)  Create a new issue in a repository",
        'jira.create_issue(project, summary, x=…)  Create an issue   [not loaded: servers=["jira"]]',
    ]
    assert lines[2:] == ([] if form == "list" else ["not started yet, tools unknown: slow"])
    assert host.requests[-1]["params"] == {"query": "open issue", "limit": 5, "detail": "full"}
    assert host.value("import json\nsorted(docs[0]), json.loads(json.dumps(docs))[1]['tool'], isinstance(docs, list), docs[0] == dict(docs[0])") == (
        "(['description', 'server', 'serverAlias', 'tool', 'toolAlias'], 'create_issue', True, True)"
    )
    assert host.value("'inputSchema' in search_tool_docs_sync('x', limit=20, detail='full')[0]") == "True"


@pytest.mark.parametrize("arguments", ["''", "'x', limit=0", "'x', limit=21", "'x', detail='all'", "'x', limit=True"])
def test_search_takes_nonsense(shared_host: Host, arguments: str) -> None:
    assert "ValueError: " in refused(shared_host, f"await search_tool_docs({arguments})")


def test_query_tool_docs(shared_host: Host) -> None:
    value = shared_host.value("print(await query_tool_docs('github', tool='create_issue', detail='full'))\n_doc = (await query_tool_docs('github'))\ntype(_doc).__mro__[1], len(_doc), query_tool_docs_sync('github', 'create_issue')[0]['tool']")
    assert value == "(<class 'list'>, 1, 'create_issue')"
    shared_host.handlers["query_tool_docs"] = lambda params: SEARCH[1:]
    printed = shared_host.check("print(await query_tool_docs('jira', tool='create_issue', detail='full'))").stdout.decode()
    assert printed == (
        "await mcp_jira.create_issue(*, project: Any, summary: Any, x: Any = ...)\nCreate an issue\n"
        "  project  any, required\n  summary  any, required\n  x        any\n"
        "Example: await mcp_jira.create_issue(project=..., summary=...)\n"
        'Not loaded: call run_python with servers=["jira"]\n'
    )


def test_discovery(shared_host: Host) -> None:
    shared_host.handlers["discovered_servers"] = lambda params: [{"name": "github", "description": "d"}, {"name": "bad", "error": "e"}]
    shared_host.handlers["describe_server"] = lambda params: {"name": params["server"], "alias": "jira", "tools": []}
    assert shared_host.value("discovered_servers()") == "('github', 'bad')"
    assert shared_host.value("discovered_servers(detailed=True)[1]") == "{'description': None, 'name': 'bad', 'error': 'e', 'loaded': False}"
    assert shared_host.value("await list_servers() == list_servers_sync() == LOADED_MCP_SERVERS") == "True"
    assert shared_host.value("describe_server('jira')") == "{'name': 'jira', 'alias': 'jira', 'tools': [], 'loaded': False}"
    assert shared_host.value("d = describe_server('git_hub')\nd['name'], d['alias'], d['cwd'], len(d['tools']), d['tools'][0]['name']") == "('git-hub', 'git_hub', None, 10, 'get-user')"
    assert shared_host.value("[m['name'] for m in list_loaded_server_metadata()][:2]") == "['github', 'git-hub']"


def test_helpers_are_missing_from_the_namespace_or_the_manual(shared_host: Host) -> None:
    assert shared_host.value("[n for n in runtime.__all__ if globals().get(n) is not getattr(runtime, n)]") == "[]"
    assert shared_host.value("[n for n in runtime.__all__ if not getattr(runtime, n).__doc__]") == "[]"


def test_300_servers_cost_time_before_they_are_used(host: Host) -> None:
    names = [f"s{n}" for n in range(300)]
    tools = [{**ISSUE, "name": f"t{n}"} for n in range(20)]
    host.check("pass", [server("warm", *tools)])
    outcome = host.check("pass", [server(name, *tools) for name in names], [f"k{n}" for n in range(300)])
    assert outcome.status == "success"
    assert host.value("len(mcp_servers), sum(s.__mcp_state__.built for s in mcp_servers.values()), mcp_s299.t19.__name__") == "(301, 0, 't19')"
