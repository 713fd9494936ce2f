"""Tracebacks as models read them: user frames only, with the exact text."""

import pytest

from guest import Guest

EXACT = {
    'items = [{"a": 1}]\ntotal = sum(i["price"] for i in items)': (
        "KeyError",
        "'price'",
        """\
Traceback (most recent call last):
  cell {n}, line 2, in <module>
    total = sum(i["price"] for i in items)
  cell {n}, line 2, in <genexpr>
    total = sum(i["price"] for i in items)
KeyError: 'price'""",
    ),
    "1/0": (
        "ZeroDivisionError",
        "division by zero",
        "Traceback (most recent call last):\n  cell {n}, line 1, in <module>\n    1/0\nZeroDivisionError: division by zero",
    ),
    "import json\njson.loads('{')": (
        "json.decoder.JSONDecodeError",
        "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        """\
Traceback (most recent call last):
  cell {n}, line 2, in <module>
    json.loads('{')
json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)""",
    ),
    "class Own(Exception): pass\ndef f():\n    raise Own('why')\nf()": (
        "Own",
        "why",
        """\
Traceback (most recent call last):
  cell {n}, line 4, in <module>
    f()
  cell {n}, line 3, in f
    raise Own('why')
Own: why""",
    ),
    "try:\n    int('x')\nexcept ValueError as e:\n    raise KeyError('b') from e": (
        "KeyError",
        "'b'",
        """\
Traceback (most recent call last):
  cell {n}, line 2, in <module>
    int('x')
ValueError: invalid literal for int() with base 10: 'x'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  cell {n}, line 4, in <module>
    raise KeyError('b') from e
KeyError: 'b'""",
    ),
    "try:\n    1/0\nexcept ZeroDivisionError:\n    undefined_": (
        "NameError",
        "name 'undefined_' is not defined",
        """\
Traceback (most recent call last):
  cell {n}, line 2, in <module>
    1/0
ZeroDivisionError: division by zero

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  cell {n}, line 4, in <module>
    undefined_
NameError: name 'undefined_' is not defined""",
    ),
    "try:\n    1/0\nexcept ZeroDivisionError:\n    raise ValueError from None": (
        "ValueError",
        "",
        "Traceback (most recent call last):\n  cell {n}, line 4, in <module>\n    raise ValueError from None\nValueError",
    ),
    "e = ValueError('two\\nlines')\ne.add_note('a note')\nraise e": (
        "ValueError",
        "two\nlines",
        "Traceback (most recent call last):\n  cell {n}, line 3, in <module>\n    raise e\nValueError: two\nlines\na note",
    ),
    "x = = 1": ("SyntaxError", None, "  cell {n}, line 1\n    x = = 1\n        ^\nSyntaxError: invalid syntax"),
    "def f():\nreturn": (
        "IndentationError",
        None,
        """\
  cell {n}, line 2
    return
    ^^^^^^
IndentationError: expected an indented block after function definition on line 1""",
    ),
    "eval('x = = 1')": (
        "SyntaxError",
        None,
        """\
Traceback (most recent call last):
  cell {n}, line 1, in <module>
    eval('x = = 1')
  <string>, line 1
    x = = 1
      ^
SyntaxError: invalid syntax""",
    ),
    "raise ExceptionGroup('both', [ValueError('a'), ExceptionGroup('inner', [KeyError('k')])])": (
        "ExceptionGroup",
        "both (2 sub-exceptions)",
        """\
  + Exception Group Traceback (most recent call last):
  |   cell {n}, line 1, in <module>
  |     raise ExceptionGroup('both', [ValueError('a'), ExceptionGroup('inner', [KeyError('k')])])
  | ExceptionGroup: both (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: a
    +---------------- 2 ----------------
    |   + ExceptionGroup: inner (1 sub-exception)
    |   +-+---------------- 1 ----------------
    |     | KeyError: 'k'
    |     +------------------------------------
    +------------------------------------""",
    ),
    "class Bad(Exception):\n    def __str__(self): raise ValueError\nraise Bad": (
        "Bad",
        "<exception str() failed>",
        "Traceback (most recent call last):\n  cell {n}, line 3, in <module>\n    raise Bad\nBad: <exception str() failed>",
    ),
    "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    raise ValueError(1)\nawait asyncio.wait_for(f(), 5)": (
        "ValueError",
        "1",
        """\
Traceback (most recent call last):
  cell {n}, line 5, in <module>
    await asyncio.wait_for(f(), 5)
  cell {n}, line 4, in f
    raise ValueError(1)
ValueError: 1""",
    ),
    "open('own.py', 'w').write('def f():\\n    raise OSError(5, \"io\")\\n')\nimport own\nown.f()": (
        "OSError",
        "[Errno 5] io",
        """\
Traceback (most recent call last):
  cell {n}, line 3, in <module>
    own.f()
  {cwd}/own.py, line 2, in f
    raise OSError(5, "io")
OSError: [Errno 5] io""",
    ),
}


@pytest.mark.parametrize("code", EXACT)
def test_traceback_text_is_exact(shared: Guest, code: str) -> None:
    cwd = (shared.check("import os\nos.getcwd()").result or "").strip("'")
    error = shared.run(code).error
    kind, message, traceback = EXACT[code]
    assert error["traceback"] == traceback.replace("{n}", str(shared.last)).replace("{cwd}", cwd)
    assert error["type"] == kind
    if message is not None:
        assert error["message"] == message


def test_recursion_is_shortened(guest: Guest) -> None:
    error = guest.run("def f(n):\n    return f(n + 1)\nf(0)").error
    lines = error["traceback"].split("\n")
    assert lines[:5] == [
        "Traceback (most recent call last):",
        "  cell 1, line 3, in <module>",
        "    f(0)",
        "  cell 1, line 2, in f",
        "    return f(n + 1)",
    ]
    assert lines[-2].startswith("  [Previous line repeated 9")
    assert lines[-2].endswith(" more times]")
    assert len(lines) == 11


def test_mutual_recursion_is_shortened(guest: Guest) -> None:
    traceback = guest.run("def a():\n    b()\ndef b():\n    a()\na()").traceback
    assert " frames left out ...\n" in traceback
    assert traceback.count("\n") < 100


def test_long_chains_messages_and_lines_are_shortened(guest: Guest) -> None:
    code = "e = None\nfor i in range(1000):\n    n = ValueError(i)\n    n.__cause__ = e\n    e = n\nraise e"
    traceback = guest.run(code).traceback
    assert "... 990 exceptions left out ..." in traceback
    assert traceback.startswith("ValueError: 0\n")
    error = guest.run("raise ValueError('x' * 1_000_000)").error
    assert len(error["message"]) < 70_000
    assert f"... {1_000_000 - 65536:,} characters left out ..." in error["message"]
    traceback = guest.run("x = '" + "y" * 100_000 + "'; 1/0").traceback
    assert len(traceback) < 600
    traceback = guest.run("raise ExceptionGroup('many', [ValueError(i) for i in range(1000)])").traceback
    assert "and 985 more exceptions" in traceback
    code = "g = ValueError(0)\nfor _ in range(500): g = ExceptionGroup('deep', [g])\nraise g"
    assert len(guest.run(code).traceback) < 10_000


def test_cyclic_causes_end(guest: Guest) -> None:
    traceback = guest.run("a, b = ValueError('a'), ValueError('b')\na.__cause__, b.__cause__ = b, a\nraise a").traceback
    assert traceback.count("ValueError") == 2


def test_suggestions_are_shown(guest: Guest) -> None:
    if guest.version < (3, 12):
        pytest.skip("Python makes them when it prints only")
    assert guest.run("pritn(1)").traceback.endswith("NameError: name 'pritn' is not defined. Did you mean: 'print'?")
    assert guest.run("''.strp()").traceback.endswith("Did you mean: 'strip'?")
    assert "forget to import 'json'" in guest.run("json.dumps(1)").traceback


def test_failing_description_does_no_harm(guest: Guest) -> None:
    outcome = guest.run("class Bad(Exception):\n    def __str__(self): exit(9)\nraise Bad")
    assert outcome.error["type"] == "Bad"
    assert outcome.error["message"] == "<exception str() failed>"
    assert "line 3, in <module>" in outcome.error["traceback"]
    guest.execute(
        "class Slow(Exception):\n    def __str__(self):\n        print('go')\n        while True: pass\nraise Slow"
    )
    outcome = guest.until_output(b"go")
    guest.interrupt()
    assert guest.collect(outcome).error["type"] == "Slow"
    assert guest.check("1").result == "1"


def test_note_whose_str_raises_does_not_hide_the_traceback(shared: Guest) -> None:
    outcome = shared.run(
        "class Note:\n    def __str__(self): raise RuntimeError\nerror = ValueError('why')\n"
        "error.__notes__ = [Note(), 'more']\nraise error"
    )
    assert outcome.error["traceback"].endswith("line 5, in <module>\n    raise error\nValueError: why\n<note str() failed>\nmore")


def test_long_source_line_is_cut_around_its_caret(shared: Guest) -> None:
    before, after = ", ".join(["'x'"] * 5000), ", ".join(["'y'"] * 5000)
    for code, shown in [
        (f"rows = [{before}, +* 3, {after}]", ("'x', +* 3, 'y'", 1)),
        (f"+* 3, {after}", ("+* 3, 'y'", 1)),
        (f"return [{before}", ("return ['x'", 0)),
    ]:
        lines = shared.run(code).error["traceback"].split("\n")
        assert len(lines) <= 4 and max(map(len, lines)) < 400, lines
        assert shown[0] in lines[1]
        if "*" in shown[0]:
            assert lines[1][lines[2].index("^")] == "*"


def test_user_code_can_print_its_own_tracebacks(guest: Guest) -> None:
    outcome = guest.check("import traceback\ntry:\n    1/0\nexcept ZeroDivisionError:\n    traceback.print_exc()")
    assert outcome.stderr.startswith(
        b'Traceback (most recent call last):\n  File "<cell 1>", line 3, in <module>\n    1/0\n'
    )
