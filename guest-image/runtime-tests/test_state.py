"""What outlives the session: memories, saved tools, and the files below /projects."""

from collections.abc import Iterator
import os
from pathlib import Path
import subprocess
import sys
import time

import pytest

from guest import PATIENCE_SECONDS
from host import Fail
from keeper import Keeper, here_only, keeper_at

pytestmark = here_only


@pytest.fixture
def keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keeper]:
    made = keeper_at(tmp_path, monkeypatch)
    yield made
    made.host.guest.close()


def error(keeper: Keeper, code: str) -> str:
    outcome = keeper.host.run(code)
    assert outcome.status == "error", outcome
    return f"{outcome.error['type']}: {outcome.error['message']}"


def test_memories_are_saved_loaded_listed_and_deleted(keeper: Keeper) -> None:
    value = keeper.host.value
    assert value("save_memory(' k ', {'a': [1, None]}, metadata={'t': 1})") == "\"memory 'k' is saved\""
    assert value("runtime.save_memory('k', 10 ** 40)") == "\"memory 'k' is saved anew\""
    assert value("load_memory('k') == 10 ** 40, load_memory('x'), load_memory('x', default=5)") == "(True, None, 5)"
    assert value("memory_exists('k'), memory_exists('x'), get_memory_info('x')") == "(True, False, None)"
    assert value("sorted(get_memory_info('k'))") == "['key', 'metadata', 'provenance']"
    outcome = keeper.host.check("[m['key'] for m in list_memories()]")
    assert outcome.result == "['k']"
    assert b"set aside: x.json.corrupt-1" in outcome.stderr
    assert value("delete_memory('k'), delete_memory('k')") == "(True, False)"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("save_memory('k', {'a': [1, {2}]})", "TypeError: save_memory: value.a[1] is not JSON: set: use list(it)"),
        ("save_memory('k', float('nan'))", "TypeError: save_memory: value is not JSON: nan"),
        ("save_memory('k', [b''])", "TypeError: save_memory: value[0] is not JSON: bytes"),
        ("save_memory('k', '\\ud800')", "TypeError: save_memory: value is not JSON: it holds a lone surrogate"),
        ("save_memory('k', 'x' * (17 << 20))", "TypeError: save_memory: too large"),
        ("x = []\nx.append(x)\nsave_memory('k', x)", "TypeError: save_memory: the value is nested too deeply, or contains itself"),
        ("class DataFrame: pass\nsave_memory('k', DataFrame())", "TypeError: save_memory: value is not JSON: DataFrame"),
        ("save_memory('k', 1, metadata=5)", "TypeError: save_memory: metadata must be a dict, not int"),
        ("save_memory(None, 1)", "TypeError: save_memory: key must be a text, not NoneType"),
        ("save_memory(' ', 1)", "ValueError: the key is empty"),
        ("update_memory('k', 5)", "TypeError: update_memory: fn must be a function, not int"),
        ("async def f(v): pass\nupdate_memory('k', f)", "TypeError: update_memory: fn must be an ordinary function"),
    ],
)
def test_mem_values_and_keys_that_cannot_be_kept_say_where_and_why(keeper: Keeper, code: str, expected: str) -> None:
    assert error(keeper, code).startswith(expected)
    assert keeper.writes == 0


def test_mem_01_an_update_lost_to_another_is_made_again(keeper: Keeper) -> None:
    save, losses = keeper.save, 0

    def another_first(params: dict[str, object]) -> object:
        nonlocal losses
        if losses < 20:
            losses += 1
            save({"key": "n", "value": losses * 100})
        return save(params)

    keeper.host.handlers["memory.save"] = another_first
    assert keeper.host.value("update_memory('n', lambda n: (n or 0) + 1)") == "2001"
    assert keeper.memories["n"]["value"] == 2001

    def never(params: dict[str, object]) -> object:
        raise Fail("MCPError", "changed", {"details": {"reason": "conflict"}})

    keeper.host.handlers["memory.save"] = never
    message = "MCPError: update_memory: 'n' was changed by others"
    assert error(keeper, "import time; time.sleep = lambda s: None\nupdate_memory('n', lambda n: 1)").startswith(message)


def test_an_update_by_a_function_that_answers_nothing_lost_the_value(keeper: Keeper) -> None:
    keeper.host.check("save_memory('seen', ['a'])")
    assert keeper.host.value("update_memory('seen', lambda seen: seen.append('b'))") == "['a', 'b']"
    assert keeper.memories["seen"]["value"] == ["a", "b"]
    # Nothing was changed: None is meant.
    keeper.host.check("update_memory('seen', lambda seen: None)")
    assert keeper.memories["seen"]["value"] is None


def test_saved_tools_are_there_by_name_with_all_that_they_need(keeper: Keeper) -> None:
    keeper.give(
        {
            "total": "LIMIT = 3\n\n\ndef total(xs):\n    'Adds.'\n    return double(sum(xs)) + LIMIT\n",
            "double": "LIMIT = 7\n\n\ndef double(x): return x * 2\n",
            "ping": "def ping(n): return n and pong(n - 1)\n",
            "pong": "def pong(n): return ping(n)\n",
            "later": "async def later(): return total([1])\n",
            "Shape": "class Shape:\n    sides = 4\n",
        },
        "import re\nLIMIT = 11\ndef mine(): return LIMIT + double(1)\n_hidden = 1\n",
    )
    value = keeper.host.value
    assert value("total([1, 2]), double(1), ping(3), await later()") == "(9, 2, 0, 5)"
    assert value("mine(), LIMIT, re.__name__, '_hidden' in globals()") == "(13, 11, 're', False)"
    assert value("class Square(Shape): pass\nSquare.sides, total.__doc__, type(total).__name__") == "(4, 'Adds.', 'function')"
    assert value("import pickle, user_tools\npickle.loads(pickle.dumps(total)) is user_tools.total is total") == "True"
    assert value("eval('pong')(1), callable(globals()['double'])") == "(0, True)"
    traceback = keeper.host.run("total(['x'])").traceback
    assert "tool total, line 6, in total" in traceback and "LIMIT" in traceback


def test_mem_04_a_bad_tool_is_named_when_it_is_used_and_costs_nothing_else(keeper: Keeper) -> None:
    saved = {"bad": "import nonsense\ndef bad(): pass\n", "torn": "def torn(:\n", "good": "def good(): return 1\n", "uses": "def uses(): return bad()\n"}
    keeper.give(saved)
    assert keeper.host.value("good()") == "1"
    missing = "MCPError: saved tool 'bad' cannot be loaded: ModuleNotFoundError: No module named 'nonsense' (line 1)"
    assert error(keeper, "bad()").startswith(missing)
    assert error(keeper, "uses()").startswith(missing)
    assert error(keeper, "torn.__name__").startswith("MCPError: saved tool 'torn' cannot be loaded: SyntaxError")
    assert keeper.host.value("def bad(): return 2\nbad()") == "2"
    assert keeper.host.value("good()") == "1"


def test_the_owners_text_may_do_more_or_fail(keeper: Keeper) -> None:
    keeper.give({"good": "def good(): return 1\n"}, "for name in ('a', 'b'):\n    globals()[name] = name\n1 / 0\nc = 1\n")
    outcome = keeper.host.check("good(), a, b")
    assert outcome.result == "(1, 'a', 'b')"
    assert outcome.stderr == b"user_tools.py cannot be loaded: ZeroDivisionError: division by zero (line 3)\n"


def test_an_owners_text_that_exits_ended_every_run_of_every_session(keeper: Keeper) -> None:
    keeper.give({"good": "def good(): return 1\n"}, "def mine(): return 2\nimport sys\nsys.exit(3)\n")
    outcome = keeper.host.check("good(), mine()")
    assert outcome.result == "(1, 2)"
    assert outcome.stderr == b"user_tools.py cannot be loaded: SystemExit: 3 (line 3)\n"


def test_an_owners_text_without_end_held_up_every_run(keeper: Keeper) -> None:
    keeper.give({}, "def mine(): return 2\nprint('go', flush=True)\nwhile True: pass\n")
    keeper.host.guest.execute("1")
    begun = keeper.host.guest.until_output(b"go")
    keeper.host.guest.interrupt()
    assert keeper.host.guest.collect(begun).status == "interrupted"
    outcome = keeper.host.check("mine()")
    assert outcome.result == "2"
    assert outcome.stderr == b"user_tools.py cannot be loaded: KeyboardInterrupt:  (line 3)\n"


def test_the_owners_text_that_is_no_python_is_named(keeper: Keeper) -> None:
    keeper.give({"good": "def good(): return 1\n"}, "def f(:\n")
    outcome = keeper.host.check("good()")
    assert outcome.result == "1"
    assert outcome.stderr.startswith(b"user_tools.py is not read, but for the saved tools in it: SyntaxError")


def test_tools_reach_servers_that_are_loaded_later(keeper: Keeper) -> None:
    keeper.give({"ask": "async def ask(): return await mcp_s.echo(n=1)\n"})
    keeper.host.check("ask")
    server = {"name": "s", "tools": [{"name": "echo"}]}
    assert keeper.host.value("await ask()", [server]) == "{'n': 1}"


def test_a_tool_is_saved_as_it_stands_in_its_cell_with_imports_and_constants(keeper: Keeper) -> None:
    keeper.host.check("import json as j\nfrom math import floor\nRATES = {'a': 1.5}")
    code = "import functools\n\n@functools.lru_cache(maxsize=5)\ndef price(n,  # odd\n          k='a'):\n    return floor(float(j.dumps(n * RATES[k])))\n\nsave_tool(price)"
    assert "RATES as it is now" in str(keeper.host.value(code))
    head = "from math import floor\nimport functools\nimport json as j\nRATES = {'a': 1.5}\n\n\n"
    assert keeper.tools["price"] == head + code.partition("\n\n")[2].rpartition("\n\nsave")[0] + "\n"
    namespace: dict[str, object] = {}
    exec(keeper.tools["price"], namespace)
    assert namespace["price"](3) == 4  # type: ignore[operator]
    assert keeper.host.value("def twice(n): return price(n) * 2\nsave_tool(twice)\n[t['name'] for t in saved_tools()]") == "['price', 'twice']"
    assert keeper.tools["twice"] == "def twice(n): return price(n) * 2\n"
    assert keeper.host.value("delete_tool('twice'), delete_tool('twice')") == "(True, False)"


def test_a_definition_in_a_block_lost_what_its_texts_begin_with(keeper: Keeper) -> None:
    code = "if 1:\n    def page(name):\n        text = f'''<a>\n    {name}\nend'''  # far left\n        return text, '''\n      six'''\n    save_tool(page)\n    shown = page(1)\nshown"
    shown = keeper.host.check(code).result
    namespace: dict[str, object] = {}
    exec(keeper.tools["page"], namespace)
    assert repr(namespace["page"](1)) == shown == repr(("<a>\n    1\nend", "\n      six"))  # type: ignore[operator]


def test_classes_and_several_at_once_are_saved(keeper: Keeper) -> None:
    keeper.host.check("class Shape:\n    def area(self): return area(self)\ndef area(shape): return Shape\nsave_tool(Shape, area)")
    assert set(keeper.tools) == {"Shape", "area"}
    assert keeper.tools["Shape"] == "class Shape:\n    def area(self): return area(self)\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(): return helper()\ndef helper(): pass\nsave_tool(f)", "uses helper, not saved yet; save them together: save_tool(helper, f)"),
        ("data = object()\ndef f(): return data\nsave_tool(f)", "uses data (object), a variable of this session; pass it as an argument"),
        ("class Named: __name__ = 'data'\ndata = Named()\ndef f(): return data\nsave_tool(f)", "uses data (Named), a variable of this session"),
        ("def f(): return nothing\nsave_tool(f)", "uses nothing, which is not defined here"),
        ("def outer(n):\n    def f(): return n\n    return f\nsave_tool(outer(1))", "holds n of the function around it"),
        ("save_tool(lambda: 1)", "has no name; use def"),
        ("save_tool(len)", "would hide Python's own len"),
        ("def load_memory(): pass\nsave_tool(load_memory)", "would hide the sandbox's own load_memory"),
        ("def _f(): pass\nsave_tool(_f)", "begins with _"),
        ("exec('def f(): pass')\nsave_tool(f)", "source is not known"),
        ("class C:\n    def m(self): pass\nsave_tool(C().m)", "is a method"),
        ("save_tool(5)", "give it a function or a class, not int"),
        ("import math\nsave_tool(math.floor)", "is not written in Python"),
        ("open('own.py', 'w').write('def g(): pass')\nimport own\ndef f(): return own.g()\nsave_tool(f)", "uses own of own, a file that later sessions do not import"),
        ("open('own.py', 'w').write('def g(): pass')\nfrom own import g\ndef f(): return g()\nsave_tool(f)", "uses g of own, a file that later sessions do not import"),
    ],
)
def test_what_cannot_be_saved_says_why(keeper: Keeper, code: str, expected: str) -> None:
    assert expected in error(keeper, code)
    assert keeper.tools == {}


def test_files_are_there_before_code_that_looks_and_changes_are_named_after_it(keeper: Keeper) -> None:
    large = "x" * 100_000
    keeper.give(
        files=[["a/b.txt", "one"], ["raw", None, "/wA=", False], ["large", large]],
        views=[["memory/k.json", "{}"], ["user_tools.py", "#"]],
    )
    keeper.host.guest.send(type="state", files=[["large", None, "eQ==", True]], gone=["raw"])
    look = f"# projects\nimport os\nos.chdir({str(keeper.projects)!r})\nsorted(os.listdir()), open('a/b.txt').read(), len(open('large').read())"
    outcome = keeper.host.check(look)
    assert outcome.result == "(['a', 'large', 'memory', 'user_tools.py'], 'one', 100001)"
    assert "projects" not in outcome.done
    outcome = keeper.host.check("open('a/b.txt', 'a').write('!')\nopen('new', 'wb').write(b'\\xff')\nos.remove('large')\nos.symlink('/', 'link')")
    files = outcome.done["projects"]
    assert (sorted(files["changed"]), files["deleted"]) == ([["a/b.txt", 4], ["new", 1]], ["large"])
    assert files["odd"] == [["link", "it is a symbolic link"]]
    # What was not taken is named again.
    assert sorted(keeper.host.check("1").done["projects"]["changed"]) == [["a/b.txt", 4], ["new", 1]]
    assert keeper.collect(["new", "a/b.txt", "link", "gone"], ["large"]) == {"new": b"\xff", "a/b.txt": b"one!", "link": None, "gone": None}
    assert keeper.host.check("os.remove('link')").done.get("projects") is None
    keeper.host.guest.send(type="forget", paths=["new"])
    assert keeper.host.check("1").done["projects"]["changed"] == [["new", 1]]


ROOT = "import os, sys\nROOT = vars(sys.modules['_mcp_guest.state.proj' + 'ects'])['ROOT']\n"


@pytest.mark.parametrize(
    "look",
    [
        "# projects\nopen(ROOT + '/a').read()",
        "open(ROOT + '/a').read()",
        "import pathlib\n[path.read_text() for path in pathlib.Path(ROOT).iterdir() if path.name == 'a'][0]",
        "os.chdir(os.fsencode(ROOT))\nopen('a').read()",
        "import subprocess\nsubprocess.run([sys.executable, '-Sc', 'print(open(%r).read(), end=\"\")' % (ROOT + '/a')], capture_output=True, text=True).stdout",
        "child = os.fork()\nif not child: os._exit(len(open(ROOT + '/a').read()))\n'one' if os.waitpid(child, 0)[1] >> 8 == 3 else 0",
        "import threading\nfound = []\nthread = threading.Thread(target=lambda: found.append(open(ROOT + '/a').read()))\nthread.start()\nthread.join()\nfound[0]",
        "os.rename(ROOT + '/a', 'moved')\nopen('moved').read()",
    ],
)
def test_files_are_asked_for_when_code_looks_at_them_however_it_names_them(keeper: Keeper, look: str) -> None:
    keeper.owe(files=[["a", "one"]])
    assert keeper.host.value("1") == "1"
    assert (keeper.host.fetches, os.listdir(keeper.projects)) == (0, [])
    assert keeper.host.value(ROOT + look) == "'one'"
    assert keeper.host.fetches == 1
    keeper.host.check("os.listdir(ROOT)")
    assert keeper.host.fetches == 1


def test_a_tool_that_names_the_folder_finds_its_files(keeper: Keeper) -> None:
    keeper.give({"there": f"import os\ndef there():  # projects\n    return os.path.exists({str(keeper.projects / 'a')!r})\n"})
    keeper.owe(files=[["a", "one"]])
    assert keeper.host.value("there()") == "True"


def test_what_is_saved_before_files_come_is_newer_than_they_are(keeper: Keeper) -> None:
    keeper.owe(views=[["memory/k.json", "old"], ["memory/other.json", "{}"]])
    keeper.host.check("save_memory('k', [1])")
    assert (keeper.host.fetches, os.listdir(keeper.projects)) == (0, [])
    assert keeper.host.value(f"{ROOT}open(ROOT + '/memory/k.json').read(), sorted(os.listdir(ROOT + '/memory'))") == "('[1]', ['k.json', 'other.json'])"


def test_what_code_left_is_named_after_files_have_come(keeper: Keeper) -> None:
    keeper.owe(files=[["a", "one"], ["b", "two"]])
    # Nothing but the status of a file is asked for, or a link is made in C, say: no hook sees that.
    (keeper.projects / "b").write_text("made here")
    files = keeper.host.check("1").done["projects"]
    assert files == {"changed": [["b", 9]], "deleted": [], "odd": []}
    assert keeper.host.fetches == 1 and (keeper.projects / "a").read_text() == "one"


def test_a_wait_for_files_can_be_interrupted_and_they_come_later(keeper: Keeper) -> None:
    keeper.owe()
    keeper.host.on_fetch = keeper.host.guest.interrupt
    assert keeper.host.run(f"{ROOT}os.listdir(ROOT)").status == "interrupted"
    keeper.host.guest.send(type="state", files=[["a", "one"]])
    assert keeper.host.value(f"{ROOT}os.listdir(ROOT)") == "['a']"
    assert keeper.host.fetches == 1


def test_a_thread_that_waits_for_files_does_not_keep_the_main_thread_from_reading_them(keeper: Keeper) -> None:
    keeper.owe()
    keeper.host.on_fetch = lambda: None
    keeper.host.check(
        f"{ROOT}import threading, time\nfound = []\nstate = getattr(sys.modules['_mcp_guest.session'].session, 'proj' + 'ects')\n"
        "thread = threading.Thread(target=lambda: found.append(open(ROOT + '/a').read()))\nthread.start()\n"
        "while not state.requested: time.sleep(0.001)"
    )
    keeper.host.guest.send(type="state", files=[["b", "two"]], more=True)
    # As long as it takes to find that something can be written.
    time.sleep(0.1)
    keeper.host.guest.send(type="state", files=[["a", "one"]])
    assert keeper.host.value("thread.join()\nfound") == "['one']"


def test_files_that_come_unasked_are_written_while_nothing_runs(keeper: Keeper) -> None:
    keeper.owe()
    keeper.host.check("1")
    # Whatever the guest had to prepare, it has, and waits.
    time.sleep(1)
    for more in (True, False):
        keeper.host.guest.send(type="state", files=[[f"more {more}", "one"]], more=more)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(os.listdir(keeper.projects)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert keeper.host.fetches == 0


def test_large_files_come_in_pieces_as_they_are(keeper: Keeper) -> None:
    code = f"import os\nos.chdir({str(keeper.projects)!r})\nopen('text', 'w').write('é' * 5_000_000)\nopen('raw', 'wb').write(bytes(range(256)) * 40_000)\nopen('empty', 'w').close()"
    keeper.host.check(code)
    found = keeper.collect(["text", "raw", "empty"])
    assert found == {"text": "é".encode() * 5_000_000, "raw": bytes(range(256)) * 40_000, "empty": b""}


def test_names_of_any_bytes_pipes_and_many_files_do_no_harm(keeper: Keeper) -> None:
    os.mkfifo(keeper.projects / "pipe")
    with open(os.fsencode(keeper.projects) + b"/\xff", "w"):
        pass
    (keeper.projects / "__pycache__").mkdir()
    (keeper.projects / "__pycache__/x.pyc").write_text("x")
    for number in range(100):
        (keeper.projects / f"f{number}").write_text("x")
    files = keeper.host.check("1").done["projects"]
    assert len(files["changed"]) == 100
    assert sorted(files["odd"]) == [["\\udcff", "its name is not UTF-8"], ["pipe", "it is not a regular file"]]


def test_views_follow_what_is_saved_and_deleted(keeper: Keeper) -> None:
    keeper.host.check("save_memory('k', [1])")
    view = keeper.projects / "memory/k.json"
    assert view.read_text() == "[1]"
    assert view.stat().st_mode & 0o777 == 0o444 and view.parent.stat().st_mode & 0o777 == 0o555
    keeper.host.check("save_memory('k', [2])")
    assert view.read_text() == "[2]"
    assert "projects" not in keeper.host.check("delete_memory('k')").done
    assert not view.exists()


def test_what_is_kept_costs_nothing_before_it_is_used(tmp_path: Path) -> None:
    """The modules are not imported by the start itself."""
    entry = Path(__file__).resolve().parent.parent / "runtime"
    code = f"import sys; sys.path.append({str(entry)!r}); import _mcp_guest.worker.worker; print([m for m in sys.modules if m.startswith('_mcp_guest.')])"
    ran = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", code], capture_output=True, text=True, check=True)
    for late in ("memory", "saving", "saved_tools", "projects", "sync"):
        assert f"'_mcp_guest.state.{late}'" not in ran.stdout
