"""Calls from user code to the host: in parallel, cancelled, interrupted, from threads and forks."""

import os
import random

import pytest

from host import Host, text
from servers import silent

ENDED = "s.echo: cancelled, because the run in which it was called has ended; await it in the same cell"


@pytest.fixture
def host(echo: Host) -> Host:
    return echo


def test_con_01_parallel_calls_get_their_own_results(host: Host) -> None:
    host.handlers["call_tool"] = silent
    host.execute("await asyncio.gather(*(mcp_s.echo(n=n) for n in range(50)))")
    for request in reversed(host.until_requests(50)):
        host.respond(request["call"], {"structuredContent": {"n": request["params"]["arguments"]["n"]}, "content": []})
    assert host.collect().result == repr([{"n": n} for n in range(50)])


def test_at_most_64_calls_are_in_flight(host: Host) -> None:
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


# Flaky: it measures the speed of a machine that others use as well. `.ci/run` tries it once more.
@pytest.mark.flaky(reruns=1, condition="CI" in os.environ)
def test_three_thousand_calls_a_second(host: Host) -> None:
    # The best of several attempts: other programs run on this machine too.
    best = 0.0
    for _ in range(5):
        code = "t = time.perf_counter()\nr = await asyncio.gather(*(mcp_s.echo(n=n) for n in range(1000)))\nlen(r) / (time.perf_counter() - t)"
        best = max(best, float(host.value(code) or 0))
        if best >= 3000:
            break
    assert best >= 3000, f"{best:.0f} calls/s"


def test_con_02_cancelled_task_cancels_its_call(host: Host) -> None:
    host.handlers["call_tool"] = silent
    code = "try:\n    async with asyncio.timeout(0.05): await mcp_s.echo(n=1)\nexcept TimeoutError: print('late')"
    outcome = host.check(code)
    assert outcome.stdout == b"late\n"
    assert host.cancelled == [host.requests[0]["call"]]
    host.respond(host.cancelled[0], text("too late"))
    host.handlers["call_tool"] = host.echo
    assert host.value("await mcp_s.echo(n=2)") == "{'n': 2}"


@pytest.mark.parametrize("code", ["await mcp_s.echo(n=1)", "await asyncio.gather(*(mcp_s.echo(n=n) for n in range(3)))", "mcp_s.echo.sync(n=1)", "async def f():\n    mcp_s.echo.sync()\nawait f()"])
def test_con_02_interrupt_cancels_calls(host: Host, code: str) -> None:
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


def test_cancelled_waiting_calls_are_never_sent(host: Host) -> None:
    host.handlers["call_tool"] = silent
    host.execute("await asyncio.gather(*(mcp_s.echo(n=n) for n in range(100)))")
    host.until_requests(64)
    host.guest.interrupt()
    assert host.collect().status == "interrupted"
    assert len(host.requests) == 64 and sorted(host.cancelled) == [request["call"] for request in host.requests]
    host.handlers["call_tool"] = host.echo
    assert host.value("len(await asyncio.gather(*(mcp_s.echo(n=n) for n in range(100))))") == "100"


def test_sync_calls_work_inside_the_event_loop(host: Host) -> None:
    code = "async def f():\n    return mcp_s.echo.sync(n=1), discovered_servers()\nawait asyncio.gather(f(), f())"
    host.handlers["discovered_servers"] = lambda params: ["a"]
    assert host.value(code) == "[({'n': 1}, ('a',)), ({'n': 1}, ('a',))]"


def test_calls_work_in_threads_and_other_event_loops(host: Host) -> None:
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


def test_background_task_calls_in_the_current_run(host: Host) -> None:
    code = "async def go():\n    try: await mcp_s.echo(n=1)\n    except MCPError as e: r.append(str(e))\n    r.append(await mcp_s.echo(n=2))\nr = []\ntask = asyncio.create_task(go())\nawait asyncio.sleep(0)"
    host.handlers["call_tool"] = silent
    host.execute(code)
    first = host.until_requests(1)[0]
    outcome = host.collect()
    assert outcome.status == "success"
    host.respond(first["call"], text("late"))
    host.handlers["call_tool"] = host.echo
    assert host.value("await task\nr") == f"[{ENDED!r}, {{'n': 2}}]"
    assert [request["id"] for request in host.requests] == [2, 3]


@pytest.mark.parametrize(
    "start",
    [
        "t = asyncio.create_task(mcp_s.echo())\nawait asyncio.sleep(0.05)",
        "a, b = asyncio.create_task(mcp_s.echo()), asyncio.create_task(asyncio.sleep(0.05))\nt = (await asyncio.wait([a, b], return_when=asyncio.FIRST_COMPLETED))[1].pop()",
        "t = asyncio.create_task(mcp_s.echo())\nawait asyncio.sleep(0.05)\nif True: 1/0",
        "t = asyncio.ensure_future(asyncio.to_thread(mcp_s.echo.sync))\nfrom _mcp_guest.session import session\nwhile not session.calls.pending: await asyncio.sleep(0.01)",
        "t = asyncio.create_task(mcp_s.echo.raw())\nawait asyncio.sleep(0.05)",
    ],
)
def test_call_that_its_run_leaves_behind_fails_in_the_next_cell(host: Host, start: str) -> None:
    host.handlers["call_tool"] = silent
    host.run(start)
    outcome = host.run("await t")
    assert outcome.error["message"] == ENDED
    host.handlers["call_tool"] = host.echo
    assert host.value("await mcp_s.echo(n=1), mcp_s.echo.sync(n=2)") == "({'n': 1}, {'n': 2})"


def test_requests_without_a_server_are_left_behind_with_their_name(host: Host) -> None:
    host.handlers["search_tool_docs"] = silent
    host.run("t = asyncio.create_task(search_tool_docs('x'))\nawait asyncio.sleep(0.05)")
    assert host.run("await t").error["message"] == ENDED.replace("s.echo", "search_tool_docs")


def test_threads_that_wait_for_a_call_end_with_their_run(host: Host) -> None:
    host.handlers["call_tool"] = silent
    host.check("errors = []\ndef work():\n    try: mcp_s.echo.sync()\n    except MCPError as e: errors.append(str(e))\nthreads = [threading.Thread(target=work) for _ in range(100)]\nfor t in threads: t.start()\nfrom _mcp_guest.session import session\nwhile len(session.calls.waiting) < 36: time.sleep(0.01)")
    assert host.value("for t in threads: t.join()\nlen(errors), set(errors)") == f"(100, {{{ENDED!r}}})"
    assert len(host.requests) == 64


def test_queued_calls_of_an_ended_run_are_never_sent(host: Host) -> None:
    host.handlers["call_tool"] = silent
    host.check("tasks = [asyncio.create_task(mcp_s.echo(n=n)) for n in range(100)]\nawait asyncio.sleep(0.05)")
    assert len(host.requests) == 64
    host.handlers["call_tool"] = host.echo
    assert host.value("await asyncio.sleep(0.05)\nlen({str(t.exception()) for t in tasks})") == "1"
    assert len(host.requests) == 64


def test_call_between_runs_waits_for_the_next(host: Host) -> None:
    host.check("go, r = threading.Event(), []\ndef work():\n    go.wait()\n    time.sleep(0.05)\n    r.append(mcp_s.echo.sync(n=1))\nt = threading.Thread(target=work)\nt.start()\ngo.set()")
    assert host.value("t.join()\nr") == "[{'n': 1}]"
    assert [request["id"] for request in host.requests] == [3]


def test_forked_child_cannot_call(host: Host) -> None:
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


def test_signal_handler_that_raises_leaves_whole_frames(host: Host) -> None:
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


def test_signal_handler_that_raises_in_the_event_loop_leaves_whole_frames(host: Host) -> None:
    host.check(ALARMS)
    statuses = set()
    for n in range(20):
        code = f"armed = True\nsignal.setitimer(signal.ITIMER_REAL, {0.0002 * n + 0.0001})\n"
        code += "await asyncio.gather(*(mcp_s.echo(n=n, big=big) for n in range(5)))\narmed = False"
        statuses.add(host.run(code).status)
        assert host.value("armed = False\nmcp_s.echo.sync(n=1), len(await mcp_s.echo(big=big))") == "({'n': 1}, 1)"
    assert "error" in statuses


def test_request_over_the_limit_is_rejected(host: Host) -> None:
    outcome = host.run("await mcp_s.echo(a='x' * (17 << 20))")
    assert "TypeError: s.echo: too large: 17,825,9" in outcome.traceback
    assert host.value("len((await mcp_s.echo(a='x' * (15 << 20)))['a']) >> 20") == "15"


def test_forgotten_await_is_named(host: Host) -> None:
    outcome = host.check("mcp_s.echo(n=1)\nNone")
    assert b"coroutine 'mcp_s.echo' was never awaited" in outcome.stderr
    assert host.requests == []
