"""Servers as modules: missing servers, errors, docs and search."""

from typing import Any

import pytest

from guest import Frame
from host import Fail, Host, server, text, tool
from servers import INTEGER, ISSUE, STRING, refused


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
def test_missing_server_or_tool_is_explained(shared_host: Host, code: str, told: str) -> None:
    assert told in refused(shared_host, code)


def test_missing_server_is_caught_as_the_usual_exception(shared_host: Host) -> None:
    code = "try: await mcp_jira.x()\nexcept NameError as e: print(e)\n"
    code += "try: mcp_servers['jira']\nexcept KeyError as e: print(e)\n"
    code += "try: await call_tool('jira', 'x')\nexcept runtime.MCPError as e: print(e)\n'mcp_jira' in globals(), mcp_servers.get('jira')"
    outcome = shared_host.check(code)
    text = b'server "jira" is known but not loaded; call run_python with servers=["jira"]'
    assert [line.removeprefix(b"mcp_jira: ") for line in outcome.stdout.splitlines()] == [text] * 3
    assert outcome.result == "(False, None)"


def test_server_that_did_not_start_gives_its_reason(host: Host) -> None:
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
    # Later it is like any other server that is not loaded, and works once it has started.
    assert "known but not loaded" in host.run("mcp_jira.x", [], ["jira"]).traceback
    assert host.value("mcp_jira.x.__name__", [server("jira", tool("x"))], []) == "'x'"
    outcome = host.run("await mcp_jira.x()", [server("jira", error=why)], [])
    assert f"MCPError: {why}" in outcome.traceback


def test_server_loaded_later_replaces_its_placeholder(host: Host) -> None:
    assert "not loaded" in host.run("mcp_github.x", [], ["github"]).traceback
    assert host.value("mcp_github.create_issue.__name__, LOADED_MCP_SERVERS", [server("github", ISSUE)], []) == "('create_issue', ('github',))"
    assert host.value("'mcp_github' in vars(__builtins__)") == "False"
    assert host.value("mcp_servers['github'] is mcp_github") == "True"


PLACEHOLDERS = "len([n for n in vars(__builtins__) if n.startswith('mc' + 'p_')])"


def test_placeholders_are_made_for_code_that_mentions_servers(host: Host) -> None:
    known = [f"server-{number}" for number in range(300)]
    assert host.value(PLACEHOLDERS, None, known) == "0"
    assert host.value(f"mcp_servers; {PLACEHOLDERS}", None, known) == "300"
    # Placeholders stay the same while the names do.
    assert host.value("held = mcp_server_7.__repr__.__self__; held is vars(__builtins__)['mcp_server_7']", None, known[:]) == "True"
    assert host.value(f"held is vars(__builtins__)['mcp_server_7'], {PLACEHOLDERS}", None, known[:9]) == "(False, 9)"


def test_server_named_in_pieces_is_explained(host: Host) -> None:
    name = "'mc' + 'p_jira.x'"
    told = 'mcp_jira: server "jira" is known but not loaded; call run_python with servers=["jira"]'
    assert f"NameError: {told}" in host.run(f"exec({name})", None, ["jira"]).traceback
    assert host.value("runtime.capability_summary() and list(mcp_servers)", None, ["git-hub"]) == "[]"
    # The names may have changed since they were last used.
    told = told.replace("jira", "slack")
    assert f"NameError: {told}" in host.run(f"exec({name.replace('jira', 'slack')})", None, ["slack"]).traceback
    assert 'no server "jira"; known: slack' in host.run("import mcp.servers.jira", None, ["slack"]).traceback
    why = [{"name": "jira", "message": "no token for jira"}]
    assert "MCPError: no token for jira" in host.run(f"exec({name})", None, ["slack"], why).traceback
    assert f"NameError: {told.replace('slack', 'jira')}" in host.run(f"exec({name})", None, ["jira"]).traceback


def test_tra_10_changed_tools_follow_their_server(host: Host) -> None:
    host.check("f, g = mcp_s.t1, mcp_s.t2", [server("s", tool("t1", {"a": STRING}), tool("t2"))])
    host.check("await f(b=1)\nmcp_s.t3", [server("s", tool("t1", {"b": INTEGER}), tool("t3"))])
    assert "MCPError: s.t2: its server no longer offers this tool" in refused(host, "await g()")
    assert 'AttributeError: server "s" no longer offers t2' in refused(host, "mcp_s.t2")
    host.handlers["list_tools"] = lambda params: [tool("t4", description="d")]
    assert host.value("await list_tools('s'), [t['name'] for t in list_tools_sync('s')]") == (
        "([{'name': 't4', 'alias': 't4', 'description': 'd', 'input_schema': {'type': 'object', 'properties': {}, "
        "'required': []}}], ['t1', 't3'])"
    )
    assert host.value("mcp_s.t2 is g, f is mcp_s.t1", [server("s", tool("t1"), tool("t2"))]) == "(True, True)"


def test_tools_look_like_functions(shared_host: Host) -> None:
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


def test_sec_01_descriptions_never_become_code(host: Host) -> None:
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


def test_malformed_servers_do_not_stop_the_run(host: Host) -> None:
    entries: Any = [5, {}, {"name": 3}, {"name": "a", "tools": 7}, {"name": "b", "tools": [1, {}, {"name": 4}, {"name": "t", "input_schema": "x"}]}]
    assert host.value("await mcp_b.t(x=1), LOADED_MCP_SERVERS, mcp_a", entries, [3, {}, None, "k"]) == (
        "({'x': 1}, ('a', 'b'), <mcp_a: 0 tools: >)"
    )


def test_out_14_tool_errors_can_be_caught(host: Host) -> None:
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
def test_errors_of_the_host_keep_their_type(host: Host, kind: str, sync: bool) -> None:
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


def test_malformed_responses_are_ignored_or_become_errors(host: Host) -> None:
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
def test_search_prints_one_line_per_tool(host: Host, form: str) -> None:
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
def test_search_rejects_invalid_arguments(shared_host: Host, arguments: str) -> None:
    assert "ValueError: " in refused(shared_host, f"await search_tool_docs({arguments})")


def test_query_tool_docs_prints_signature_and_parameters(shared_host: Host) -> None:
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


def test_discovery_helpers_describe_all_servers(shared_host: Host) -> None:
    shared_host.handlers["discovered_servers"] = lambda params: [{"name": "github", "description": "d"}, {"name": "bad", "error": "e"}]
    shared_host.handlers["describe_server"] = lambda params: {"name": params["server"], "alias": "jira", "tools": []}
    assert shared_host.value("discovered_servers()") == "('github', 'bad')"
    assert shared_host.value("discovered_servers(detailed=True)[1]") == "{'description': None, 'name': 'bad', 'error': 'e', 'loaded': False}"
    assert shared_host.value("await list_servers() == list_servers_sync() == LOADED_MCP_SERVERS") == "True"
    assert shared_host.value("describe_server('jira')") == "{'name': 'jira', 'alias': 'jira', 'tools': [], 'loaded': False}"
    assert shared_host.value("d = describe_server('git_hub')\nd['name'], d['alias'], d['cwd'], len(d['tools']), d['tools'][0]['name']") == "('git-hub', 'git_hub', None, 10, 'get-user')"
    assert shared_host.value("[m['name'] for m in list_loaded_server_metadata()][:2]") == "['github', 'git-hub']"


def test_helpers_are_in_the_namespace_and_documented(shared_host: Host) -> None:
    assert shared_host.value("[n for n in runtime.__all__ if globals().get(n) is not getattr(runtime, n)]") == "[]"
    assert shared_host.value("[n for n in runtime.__all__ if not getattr(runtime, n).__doc__]") == "[]"


def test_tools_are_made_on_first_use(host: Host) -> None:
    names = [f"s{n}" for n in range(300)]
    tools = [{**ISSUE, "name": f"t{n}"} for n in range(20)]
    host.check("pass", [server("warm", *tools)])
    outcome = host.check("pass", [server(name, *tools) for name in names], [f"k{n}" for n in range(300)])
    assert outcome.status == "success"
    assert host.value("len(mcp_servers), sum(s.__mcp_state__.built for s in mcp_servers.values()), mcp_s299.t19.__name__") == "(301, 0, 't19')"
