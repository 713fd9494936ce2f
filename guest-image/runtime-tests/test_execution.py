"""What a run returns: results, status, exit codes; and what lasts from one run to the next."""

import pytest

from guest import Guest

RESULTS = {
    "1 + 1": "2",
    "x = 5\nx": "5",
    "None": None,
    "x = 5": None,
    "5;": None,
    "5 ;  # hidden": None,
    "5  # ; shown": "5",
    "'a;b'": "'a;b'",
    "'é' * 2": "'éé'",
    "(1,\n 2)": "(1, 2)",
    "'only a string'": "'only a string'",
    "'''doc'''\n7": "7",
    "if True:\n    5": None,
    "def f(): return 3\nf()": "3",
    "import asyncio\nawait asyncio.sleep(0, 'slept')": "'slept'",
    "[i async for i in agen()]": "[0, 1]",
    "async with manager() as value: pass\nvalue": "'entered'",
    "(y := 4)": "4",
    "1\r\n2\r\n": "2",
    "\ufeff1": "1",
    "'\\ud800'": "'\\ud800'",
    "": None,
    "   \n\t\n": None,
    "# nothing": None,
}
HELPERS = """
import contextlib
async def agen():
    yield 0
    yield 1
@contextlib.asynccontextmanager
async def manager():
    yield 'entered'
"""


@pytest.mark.parametrize("code", RESULTS)
def test_result_of_the_last_expression(shared: Guest, code: str) -> None:
    shared.check(HELPERS)
    outcome = shared.check(code)
    assert outcome.result == RESULTS[code]
    assert outcome.stdout == b"" == outcome.stderr
    assert outcome.done["exit_code"] is None


def test_execution_done_has_every_field(guest: Guest) -> None:
    done = guest.check("1").done
    assert list(done) == ["type", "id", "status", "exit_code", "error", "result", "where", "timings"]
    assert 0 <= done["timings"]["run_ms"] < 10_000


def test_variables_last_and_no_internal_names_appear(guest: Guest) -> None:
    guest.check("a = 1\nimport json\ndef f(): return a + 1")
    assert guest.check("a = 10\nf(), json.dumps([])").result == "(11, '[]')"
    given = "{'mcp', 'runtime', 'mcp_servers', 'LOADED_MCP_SERVERS', 'display', *runtime.__all__}"
    names = guest.check(f"sorted(n for n in globals() if not n.startswith('__') and n not in {given})").result
    assert names == "['a', 'f', 'json']"
    assert guest.check("sorted(n for n in globals() if '__mcp' in n)").result == "[]"


def test_underscore_is_the_last_result(guest: Guest) -> None:
    guest.check("41")
    assert guest.check("_ + 1").result == "42"
    guest.check("None")
    assert guest.check("_").result == "42"


def test_future_imports_last(guest: Guest) -> None:
    guest.check("from __future__ import annotations")
    assert guest.check("def f(x: undefined): pass\nf.__annotations__").result == "{'x': 'undefined'}"


def test_background_tasks_and_context_last_between_cells(guest: Guest) -> None:
    guest.check(
        "import asyncio, contextvars, decimal\nvariable = contextvars.ContextVar('variable')\n"
        "async def later():\n    await asyncio.sleep(0)\n    return 'done'\n"
        "task = asyncio.create_task(later())\nvariable.set(1)\ndecimal.getcontext().prec = 5"
        "\nawait asyncio.sleep(0)"
    )
    assert guest.check("variable.get(), decimal.Decimal(1) / 3").result == "(1, Decimal('0.33333'))"
    assert guest.check("await task").result == "'done'"
    assert guest.check("variable.set(2)\nawait asyncio.sleep(0)\nvariable.get()").result == "2"


def test_asyncio_run_works_without_top_level_await(guest: Guest) -> None:
    code = "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 7\nasyncio.run(f())"
    assert guest.check(code).result == "7"
    assert guest.check("await f()").result == "7"
    assert guest.check("asyncio.run(f()), asyncio.run(f())").result == "(7, 7)"
    outcome = guest.run("async def g(): asyncio.run(f())\nawait g()")
    assert "cannot be called from a running event loop" in outcome.error["message"]


def test_closed_event_loop_is_replaced(guest: Guest) -> None:
    guest.check("import asyncio\nloop = asyncio.get_running_loop()\nawait asyncio.sleep(0)")
    guest.check("loop.close()")
    assert guest.check("await asyncio.sleep(0, 1)").result == "1"
    guest.run("asyncio.get_running_loop().stop()\nawait asyncio.sleep(100)")
    assert guest.check("await asyncio.sleep(0, 2)").result == "2"


@pytest.mark.parametrize(
    ("code", "status", "exit_code", "stderr"),
    [
        ("import sys; sys.exit()", "success", 0, b""),
        ("exit()", "success", 0, b""),
        ("quit(0)", "success", 0, b""),
        ("raise SystemExit(3)", "error", 3, b""),
        ("exit(-1)", "error", -1, b""),
        ("exit(True)", "error", 1, b""),
        ("exit(False)", "success", 0, b""),
        ("exit(10**30)", "error", -1, b""),
        ("import sys; sys.exit('no luck')", "error", 1, b"no luck\n"),
        ("exit([1])", "error", 1, b"[1]\n"),
        (
            "class E:\n    def __eq__(self, o): raise ValueError\n    def __str__(self): raise ValueError\nexit(E())",
            "error",
            1,
            b"",
        ),
        ("import asyncio\nawait asyncio.sleep(0)\nexit(4)", "error", 4, b""),
        (
            "import asyncio\nasync def f(): exit(5)\nt = asyncio.create_task(f())\nawait asyncio.sleep(100)",
            "error",
            5,
            b"",
        ),
    ],
)
def test_system_exit_gives_the_exit_code(shared: Guest, code: str, status: str, exit_code: int, stderr: bytes) -> None:
    shared.check("kept = 1")
    outcome = shared.run(code)
    assert (outcome.status, outcome.done["exit_code"], outcome.stderr) == (status, exit_code, stderr)
    assert (outcome.done["error"] is None) == (status == "success")
    assert shared.check("kept").result == "1"


def test_repr_that_raises_is_the_error(guest: Guest) -> None:
    outcome = guest.run("class Bad:\n    def __repr__(self):\n        raise ValueError('no repr')\nBad()")
    assert outcome.status == "error"
    assert outcome.traceback == (
        "Traceback (most recent call last):\n  cell 1, line 3, in Bad.__repr__\n    raise ValueError('no repr')\n"
        "ValueError: no repr"
    )


def test_ten_megabytes_of_source_run(guest: Guest) -> None:
    assert guest.check("x = 1\n" + "# filling\n" * 1_000_000 + "x + 1").result == "2"
    assert len(guest.check("'" + "y" * 10_000_000 + "'[:3]").done) == 8
    outcome = guest.run("a = " + "(" * 1000 + ")" * 1000)
    assert outcome.error["type"] == "SyntaxError"
    outcome = guest.run("+".join(["1"] * 300_000))
    assert outcome.error["type"] in ("RecursionError", "MemoryError"), outcome.error
    assert guest.check("x").result == "1"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1\ny = '\0'", "a null character in the code (<cell 1>, line 2)"),
        ("x = '\ud800'", "a lone surrogate (U+D800) in the code (<cell 1>, line 1)"),
    ],
)
def test_text_that_is_not_source_is_a_syntax_error(guest: Guest, code: str, message: str) -> None:
    outcome = guest.run(code)
    assert outcome.error["type"] == "SyntaxError"
    assert outcome.error["message"] == message
    assert guest.check("1").result == "1"


def test_changed_recursion_limit_and_builtins_do_no_harm(guest: Guest) -> None:
    guest.run("import sys\nsys.setrecursionlimit(30)")
    outcome = guest.run("def f(): f()\nf()")
    assert outcome.status == "error"
    guest.run("sys.setrecursionlimit(1000)")
    guest.check(
        "import builtins, os, time, json, sys\nos.getpid = os.write = time.perf_counter = json.dumps = None\n"
        "builtins.print = None"
    )
    guest.check("sys.modules.pop('asyncio', None), sys.modules.pop('traceback', None), sys.path.clear()")
    assert guest.check("6 * 7").result == "42"
    assert guest.run("1/0").error["type"] == "ZeroDivisionError"


def test_user_modules_named_like_the_library_do_not_affect_the_runtime(guest: Guest) -> None:
    guest.check(
        "for name in ('traceback', 'linecache', 'asyncio', 'json', 'base64'):\n"
        "    open(name + '.py', 'w').write('raise RuntimeError(\"hijacked\")')"
    )
    assert "Did you mean" in guest.run("pritn(1)").traceback or guest.version < (3, 12)
    assert guest.check("async def f(): return 1\nawait f()").result == "1"


def test_fork_that_reaches_the_end_of_the_cell_ends_quietly(guest: Guest) -> None:
    outcome = guest.check(
        "import os\npid = os.fork()\nif pid == 0:\n    print('child')\nelse:\n    print(os.waitpid(pid, 0)[1])"
    )
    assert outcome.stdout == b"child\n0\n"
    outcome = guest.check(
        "pid = os.fork()\nif pid == 0:\n    1/0\nelse:\n    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    )
    assert outcome.stdout == b"1\n"
    assert outcome.stderr.endswith(b"ZeroDivisionError: division by zero\n")
    assert guest.check("1").result == "1"
