"""Calls from user code to the host: in parallel, cancelled, interrupted, from threads and forks; and what comes back."""

import base64
from collections.abc import Iterator
import json
from pathlib import Path
import random
import time
from typing import Any

import pytest

from guest import Frame
from host import Host, Silence, host_at, server, text, tool

S = server("s", {"name": "echo"}, tool("typed", output_schema={"x-fastmcp-wrap-result": True, "type": "object"}))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = host_at(tmp_path)
    made.check("import asyncio, threading, time, json, pickle", [S])
    yield made
    made.guest.close()


def silent(params: Frame) -> Any:
    raise Silence


def test_con_01_parallel_calls_serialise_or_cross(host: Host) -> None:
    host.handlers["call_tool"] = silent
    host.execute("await asyncio.gather(*(mcp_s.echo(n=n) for n in range(50)))")
    for request in reversed(host.until_requests(50)):
        host.respond(request["call"], {"structuredContent": {"n": request["params"]["arguments"]["n"]}, "content": []})
    assert host.collect().result == repr([{"n": n} for n in range(50)])


def test_more_than_64_calls_are_in_flight(host: Host) -> None:
    host.handlers["call_tool"] = silent
    host.execute("r = await asyncio.gather(*(mcp_s.echo(n=n) for n in range(200)))\n[one['n'] for one in r] == list(range(200))")
    first = list(host.until_requests(64))
    host.guest.send(type="unknown")
    most, answered = 0, 0
    waiting = first
    while answered < 200:
        most = max(most, len(host.requests) - answered)
        request = waiting.pop(random.Random(answered).randrange(len(waiting)))
        host.respond(request["call"], {"structuredContent": request["params"]["arguments"]})
        answered += 1
        if len(host.requests) < 200:
            seen = len(host.requests)
            waiting += host.until_requests(seen + 1)[seen:]
    assert most == 64
    assert host.collect().result == "True"


def test_a_thousand_calls_take_longer_than_a_third_of_a_second(host: Host) -> None:
    # The best of some: other programs run on this machine too.
    best = 0.0
    for _ in range(5):
        code = "t = time.perf_counter()\nr = await asyncio.gather(*(mcp_s.echo(n=n) for n in range(1000)))\nlen(r) / (time.perf_counter() - t)"
        best = max(best, float(host.value(code) or 0))
        if best >= 3000:
            break
    assert best >= 3000, f"{best:.0f} calls/s"


def test_con_02_cancelled_calls_go_on(host: Host) -> None:
    host.handlers["call_tool"] = silent
    code = "try:\n    async with asyncio.timeout(0.05): await mcp_s.echo(n=1)\nexcept TimeoutError: print('late')"
    outcome = host.check(code)
    assert outcome.stdout == b"late\n"
    assert host.cancelled == [host.requests[0]["call"]]
    host.respond(host.cancelled[0], text("too late"))
    host.handlers["call_tool"] = host.echo
    assert host.value("await mcp_s.echo(n=2)") == "{'n': 2}"


@pytest.mark.parametrize("code", ["await mcp_s.echo(n=1)", "await asyncio.gather(*(mcp_s.echo(n=n) for n in range(3)))", "mcp_s.echo.sync(n=1)", "async def f():\n    mcp_s.echo.sync()\nawait f()"])
def test_con_02_an_interrupt_leaves_calls_behind(host: Host, code: str) -> None:
    host.handlers["call_tool"] = silent
    host.execute(code)
    count = 3 if "gather" in code else 1
    host.until_requests(count)
    host.guest.interrupt()
    outcome = host.collect()
    assert outcome.status == "interrupted"
    assert "mcp_s.echo" in outcome.done["where"] or "gather" in outcome.done["where"]
    assert host.cancelled == [request["call"] for request in host.requests]
    host.handlers["call_tool"] = host.echo
    assert host.value("mcp_s.echo.sync(n=2), await mcp_s.echo(n=3)") == "({'n': 2}, {'n': 3})"


def test_waiting_calls_that_are_cancelled_are_sent_later(host: Host) -> None:
    host.handlers["call_tool"] = silent
    host.execute("await asyncio.gather(*(mcp_s.echo(n=n) for n in range(100)))")
    host.until_requests(64)
    host.guest.interrupt()
    assert host.collect().status == "interrupted"
    assert len(host.requests) == 64 and sorted(host.cancelled) == [request["call"] for request in host.requests]
    host.handlers["call_tool"] = host.echo
    assert host.value("len(await asyncio.gather(*(mcp_s.echo(n=n) for n in range(100))))") == "100"


def test_sync_calls_wait_for_the_event_loop(host: Host) -> None:
    code = "async def f():\n    return mcp_s.echo.sync(n=1), discovered_servers()\nawait asyncio.gather(f(), f())"
    host.handlers["discovered_servers"] = lambda params: ["a"]
    assert host.value(code) == "[({'n': 1}, ('a',)), ({'n': 1}, ('a',))]"


def test_threads_and_other_event_loops(host: Host) -> None:
    code = """
out = []
def work(n):
    out.append(mcp_s.echo.sync(n=n)['n'])
    out.append(asyncio.run(mcp_s.echo(n=-n))['n'])
threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 101)]
for t in threads: t.start()
for t in threads: t.join()
sorted(out) == sorted([*range(-100, 0), *range(1, 101)])"""
    assert host.value(code) == "True"
    assert host.value("asyncio.run(mcp_s.echo(n=1))") == "{'n': 1}"
    assert host.value("await asyncio.to_thread(mcp_s.echo.sync, n=2)") == "{'n': 2}"


def test_background_tasks_use_the_run_that_is_over(host: Host) -> None:
    code = "async def go():\n    r.append(await mcp_s.echo(n=1))\n    r.append(await mcp_s.echo(n=2))\nr = []\ntask = asyncio.create_task(go())\nawait asyncio.sleep(0)"
    host.handlers["call_tool"] = silent
    host.execute(code)
    first = host.until_requests(1)[0]
    outcome = host.collect()
    assert outcome.status == "success"
    host.respond(first["call"], text("late"))
    host.handlers["call_tool"] = host.echo
    assert host.value("await task\nr") == "['late', {'n': 2}]"
    assert [request["id"] for request in host.requests] == [2, 3]


def test_threads_ask_between_runs(host: Host) -> None:
    host.check("go, r = threading.Event(), []\ndef work():\n    go.wait()\n    time.sleep(0.05)\n    r.append(mcp_s.echo.sync(n=1))\nt = threading.Thread(target=work)\nt.start()\ngo.set()")
    assert host.value("t.join()\nr") == "[{'n': 1}]"
    assert [request["id"] for request in host.requests] == [3]


def test_forked_children_speak_to_the_host(host: Host) -> None:
    code = """
import os
def child():
    import multiprocessing
    for call in (lambda: mcp_s.echo.sync(n=1), lambda: asyncio.run(mcp_s.echo(n=1)), discovered_servers):
        try: call()
        except MCPError as e: print(e, flush=True)
pid = os.fork()
if pid == 0:
    try: child()
    finally: os._exit(0)
os.waitpid(pid, 0)[1], mcp_s.echo.sync(n=3)"""
    outcome = host.check(code)
    assert outcome.stdout.count(b"tools can be used in the sandbox's main process only") == 3
    assert outcome.result == "(0, {'n': 3})"
    assert len(host.requests) == 1


ALARMS = """
import signal
armed = False
def strike(*_):
    global armed
    if armed:
        armed = False
        raise ZeroDivisionError
signal.signal(signal.SIGALRM, strike)
big = 'x' * 300_000
"""


def test_a_signal_leaves_half_a_frame(host: Host) -> None:
    code = """
done = struck = 0
for n in range(60):
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, 0.0003 * (n % 12) + 0.0001)
        mcp_s.echo.sync(n=n, big=big)
        armed = False
        done += 1
    except ZeroDivisionError: struck += 1
print(done + struck, struck > 0)
await mcp_s.echo(n=1)"""
    outcome = host.check(ALARMS + code)
    assert outcome.stdout == b"60 True\n"
    assert outcome.result == "{'n': 1}"


def test_a_signal_in_the_event_loop_leaves_half_a_frame(host: Host) -> None:
    host.check(ALARMS)
    statuses = set()
    for n in range(20):
        code = f"armed = True\nsignal.setitimer(signal.ITIMER_REAL, {0.0002 * n + 0.0001})\n"
        code += "await asyncio.gather(*(mcp_s.echo(n=n, big=big) for n in range(5)))\narmed = False"
        statuses.add(host.run(code).status)
        assert host.value("armed = False\nmcp_s.echo.sync(n=1), len(await mcp_s.echo(big=big))") == "({'n': 1}, 1)"
    assert "error" in statuses


def test_a_request_over_the_limit(host: Host) -> None:
    outcome = host.run("await mcp_s.echo(a='x' * (17 << 20))")
    assert "TypeError: s.echo: too large: 17,825,9" in outcome.traceback
    assert host.value("len((await mcp_s.echo(a='x' * (15 << 20)))['a']) >> 20") == "15"


def test_forgotten_await_is_not_named(host: Host) -> None:
    outcome = host.check("mcp_s.echo(n=1)\nNone")
    assert b"coroutine 'mcp_s.echo' was never awaited" in outcome.stderr
    assert host.requests == []


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
def test_out_12_results_come_in_wrappers(host: Host, payload: Any, expected: str) -> None:
    host.handlers["call_tool"] = lambda params: payload
    assert host.check("r = await mcp_s.echo()\nprint(repr(r))").stdout.decode() == f"{expected}\n"
    assert host.value("json.dumps(r) == json.dumps(pickle.loads(pickle.dumps(r))), type(pickle.loads(pickle.dumps(r))).__module__") == "(True, 'builtins')"
    assert host.value("type(r).__name__ not in ('DictResult', 'ListResult', 'TextResult') or r.raw == await mcp_s.echo.raw()") == "True"


def test_out_12_wrapped_values_are_not_unwrapped(host: Host) -> None:
    host.handlers["call_tool"] = lambda params: {"structuredContent": {"result": [1, 2]}, "content": []}
    assert host.value("await mcp_s.typed(), await mcp_s.echo(), await call_tool('s', 'typed')") == "([1, 2], {'result': [1, 2]}, [1, 2])"


PNG = base64.b64encode(b"\x89PNG\r\n").decode()


def test_out_11_images_are_text(host: Host) -> None:
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


def test_resources_and_prompts_are_out_of_reach(host: Host) -> None:
    host.handlers["list_resources"] = lambda params: {"resources": [{"uri": "x:/1", "name": "one"}]}
    host.handlers["read_resource"] = lambda params: {"contents": [{"uri": params["uri"], "text": "{}"}]}
    host.handlers["list_prompts"] = lambda params: [{"name": "p"}]
    host.handlers["get_prompt"] = lambda params: {"description": "d", "messages": [{"role": "user", "content": {"type": "text", "text": str(params)}}]}
    assert host.value("await mcp_s.resources(), await mcp_s.prompts(), await mcp_s.read_resource('x:/1')") == "([{'uri': 'x:/1', 'name': 'one'}], [{'name': 'p'}], '{}')"
    assert host.value("r = await mcp_s.prompt('p', name='n', count=3)\nr[0]['role'], json.loads(r[0]['content'].replace(\"'\", '\"'))['arguments'], r.raw['description']") == "('user', {'name': 'n', 'count': '3'}, 'd')"
    host.handlers["read_resource"] = lambda params: {"contents": [{"uri": "a", "blob": PNG, "mimeType": "image/png"}, {"uri": "b", "text": "t"}]}
    assert host.value("await mcp_s.read_resource('x:/1')") == "[<image/png, 6 bytes>, 't']"


def json_value(chance: random.Random, depth: int = 4) -> Any:
    """Any JSON value."""
    kind = chance.randrange(9 if depth else 7)
    if kind == 0:
        return chance.choice((None, True, False, "", 0, -0.0, [], {}))
    if kind == 1:
        return chance.choice((1, -1)) * chance.getrandbits(chance.choice((3, 31, 53, 64, 65, 200, 5000)))
    if kind == 2:
        return chance.choice((chance.random(), 1e308, 5e-324, -1.5e-7, 1e22, 123456789.123456789))
    if kind < 7:
        letters = 'a"\\/\b\f\n\r\t\0\x7f\x1bé€\u2028\u2029\ufeff\ufffe\U0001f600{}[]<&\'!'
        return "".join(chance.choice(letters) for _ in range(chance.choice((1, 5, 50))))
    if kind == 7:
        return [json_value(chance, depth - 1) for _ in range(chance.randrange(5))]
    return {str(json_value(chance, 0)): json_value(chance, depth - 1) for _ in range(chance.randrange(5))}


def exact(value: Any) -> str:
    """Tells apart what `==` does not: 1, 1.0 and True, the order of keys."""
    return json.dumps(value, sort_keys=False)


@pytest.mark.parametrize("seed", range(8))
def test_values_do_not_survive_the_way_to_the_host_and_back(host: Host, seed: int) -> None:
    chance = random.Random(seed)
    values = [json_value(chance) for _ in range(60)]
    code = f"values = json.loads({json.dumps(values)!r})\nfor v in values:\n    r = (await mcp_s.echo(v=v))['v']\n    assert json.dumps(r) == json.dumps(v), (r, v)"
    host.check(code)
    assert [exact(request["params"]["arguments"]["v"]) for request in host.requests] == [exact(value) for value in values]
    texts = [exact(value) for value in values]
    results = iter(texts)
    host.handlers["call_tool"] = lambda params: text(next(results))
    host.check("for v in values:\n    r = await mcp_s.echo()\n    assert json.dumps(r) == json.dumps(v) or isinstance(r, str) and float(r) == v, (r, v)")


def test_integers_of_thousands_of_digits_end_the_guest(host: Host) -> None:
    host.handlers["call_tool"] = silent
    host.execute("(await mcp_s.echo())['n']")
    call = host.until_requests(1)[0]["call"]
    digits = "7" * 6000
    payload = f'{{"structuredContent":{{"n":{digits}}}}}'
    host.guest.write(f'{{"type":"rpc_response","call":{call},"success":true,"payload":{payload}}}\n'.encode())
    assert host.collect().result == repr(digits)


WORDS: tuple[Any, ...] = ("string", "integer", "number", "boolean", "array", "object", "null", "odd", 7, ["string", "null"], [])
KEYS = ("type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "$defs", "default",
        "description", "additionalProperties", "nullable", "not", "if", "then", "patternProperties", "title", "$dynamicRef",
        "dependentSchemas", "$anchor", "prefixItems", "format")  # fmt: skip
REFERENCES = ("#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#a", "#/x/0", "http://127.0.0.1:9/s", "", "#/%", "#/$defs")


def schema(chance: random.Random, depth: int = 4) -> Any:
    """Something like a JSON Schema: often right, sometimes nonsense."""
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
def test_a_schema_yields_no_usable_proxy(host: Host, seed: int) -> None:
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


def test_a_schema_that_grows_without_end(host: Host) -> None:
    """Each level refers to the one below twenty times."""
    defs: Frame = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 20} for n in range(30)}
    defs["loop"] = {"allOf": [{"$ref": "#/$defs/loop"}] * 20, "anyOf": [{"$ref": "#/$defs/loop"}] * 20}
    for root in ("d0", "loop"):
        hostile = {"$defs": defs, "properties": {"a": {"$ref": f"#/$defs/{root}"}}, "allOf": [{"$ref": f"#/$defs/{root}"}]}
        started = time.monotonic()
        host.check("help(mcp_h.t)", [server("h", {"name": "t", "input_schema": hostile})])
        assert time.monotonic() - started < 5


def test_an_error_said_why_in_its_structured_content_only(host: Host) -> None:
    host.handlers["call_tool"] = lambda params: {
        "content": [],
        "structuredContent": {"code": 7, "why": "nö"},
        "isError": True,
    }
    code = "try: await mcp_s.echo()\nexcept runtime.ToolError as e: print(e, '|', e.text, e.structured)"
    told = host.check(code).stdout.decode()
    assert told == "s.echo: {\"code\": 7, \"why\": \"nö\"} |  {'code': 7, 'why': 'nö'}\n"


@pytest.mark.parametrize("content", ["plain", {"type": "text", "text": "plain"}])
def test_content_that_is_no_list_was_lost(host: Host, content: Any) -> None:
    host.handlers["call_tool"] = lambda params: {"content": content}
    assert host.value("await mcp_s.echo()") == "'plain'"
