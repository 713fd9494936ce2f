"""What outlives the session: memories, saved tools, and the files below /projects."""

from collections.abc import Iterator
import os
from pathlib import Path
import subprocess
import sys
import time

import pytest

from guest import PATIENCE_SECONDS, RUNTIME
from host import Fail
from host_store import HostStore, here_only, store_at

pytestmark = here_only


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HostStore]:
    made = store_at(tmp_path, monkeypatch)
    yield made
    made.host.guest.close()


def error(store: HostStore, code: str) -> str:
    outcome = store.host.run(code)
    assert outcome.status == "error", outcome
    return f"{outcome.error['type']}: {outcome.error['message']}"


def test_memories_are_saved_loaded_listed_and_deleted(store: HostStore) -> None:
    value = store.host.value
    assert value("save_memory(' k ', {'a': [1, None]}, metadata={'t': 1})") == "\"memory 'k' is saved\""
    assert value("runtime.save_memory('k', 10 ** 40)") == "\"memory 'k' is updated\""
    assert value("load_memory('k') == 10 ** 40, load_memory('x'), load_memory('x', default=5)") == "(True, None, 5)"
    assert value("memory_exists('k'), memory_exists('x'), get_memory_info('x')") == "(True, False, None)"
    assert value("sorted(get_memory_info('k'))") == "['key', 'metadata', 'provenance']"
    outcome = store.host.check("[m['key'] for m in list_memories()]")
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
def test_mem_invalid_values_and_keys_are_rejected_with_reason(store: HostStore, code: str, expected: str) -> None:
    assert error(store, code).startswith(expected)
    assert store.writes == 0


def test_mem_01_update_that_conflicts_is_repeated(store: HostStore) -> None:
    save, losses = store.save, 0

    def another_first(params: dict[str, object]) -> object:
        nonlocal losses
        if losses < 20:
            losses += 1
            save({"key": "n", "value": losses * 100})
        return save(params)

    store.host.handlers["memory.save"] = another_first
    assert store.host.value("update_memory('n', lambda n: (n or 0) + 1)") == "2001"
    assert store.memories["n"]["value"] == 2001

    def never(params: dict[str, object]) -> object:
        raise Fail("MCPError", "changed", {"details": {"reason": "conflict"}})

    store.host.handlers["memory.save"] = never
    message = "MCPError: update_memory: 'n' was changed by others"
    assert error(store, "import time; time.sleep = lambda s: None\nupdate_memory('n', lambda n: 1)").startswith(message)


def test_update_by_a_function_that_returns_none_keeps_its_changes(store: HostStore) -> None:
    store.host.check("save_memory('seen', ['a'])")
    assert store.host.value("update_memory('seen', lambda seen: seen.append('b'))") == "['a', 'b']"
    assert store.memories["seen"]["value"] == ["a", "b"]
    # The value is unchanged, so None is the new value.
    store.host.check("update_memory('seen', lambda seen: None)")
    assert store.memories["seen"]["value"] is None


def test_saved_tools_are_bound_with_what_they_need(store: HostStore) -> None:
    store.send_state(
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
    value = store.host.value
    assert value("total([1, 2]), double(1), ping(3), await later()") == "(9, 2, 0, 5)"
    assert value("mine(), LIMIT, re.__name__, '_hidden' in globals()") == "(13, 11, 're', False)"
    assert value("class Square(Shape): pass\nSquare.sides, total.__doc__, type(total).__name__") == "(4, 'Adds.', 'function')"
    assert value("import pickle, user_tools\npickle.loads(pickle.dumps(total)) is user_tools.total is total") == "True"
    assert value("eval('pong')(1), callable(globals()['double'])") == "(0, True)"
    traceback = store.host.run("total(['x'])").traceback
    assert "tool total, line 6, in total" in traceback and "LIMIT" in traceback


def test_mem_04_broken_tool_fails_only_when_it_is_used(store: HostStore) -> None:
    saved = {"bad": "import nonsense\ndef bad(): pass\n", "torn": "def torn(:\n", "good": "def good(): return 1\n", "uses": "def uses(): return bad()\n"}
    store.send_state(saved)
    assert store.host.value("good()") == "1"
    missing = "MCPError: saved tool 'bad' cannot be loaded: ModuleNotFoundError: No module named 'nonsense' (line 1)"
    assert error(store, "bad()").startswith(missing)
    assert error(store, "uses()").startswith(missing)
    assert error(store, "torn.__name__").startswith("MCPError: saved tool 'torn' cannot be loaded: SyntaxError")
    assert store.host.value("def bad(): return 2\nbad()") == "2"
    assert store.host.value("good()") == "1"


def test_owners_text_may_run_code_and_fail(store: HostStore) -> None:
    store.send_state({"good": "def good(): return 1\n"}, "for name in ('a', 'b'):\n    globals()[name] = name\n1 / 0\nc = 1\n")
    outcome = store.host.check("good(), a, b")
    assert outcome.result == "(1, 'a', 'b')"
    assert outcome.stderr == b"user_tools.py cannot be loaded: ZeroDivisionError: division by zero (line 3)\n"


def test_owners_text_that_exits_does_not_end_the_run(store: HostStore) -> None:
    store.send_state({"good": "def good(): return 1\n"}, "def mine(): return 2\nimport sys\nsys.exit(3)\n")
    outcome = store.host.check("good(), mine()")
    assert outcome.result == "(1, 2)"
    assert outcome.stderr == b"user_tools.py cannot be loaded: SystemExit: 3 (line 3)\n"


def test_owners_text_that_never_ends_can_be_interrupted(store: HostStore) -> None:
    store.send_state({}, "def mine(): return 2\nprint('go', flush=True)\nwhile True: pass\n")
    store.host.guest.execute("1")
    begun = store.host.guest.until_output(b"go")
    store.host.guest.interrupt()
    assert store.host.guest.collect(begun).status == "interrupted"
    outcome = store.host.check("mine()")
    assert outcome.result == "2"
    assert outcome.stderr == b"user_tools.py cannot be loaded: KeyboardInterrupt:  (line 3)\n"


def test_owners_text_with_a_syntax_error_is_reported(store: HostStore) -> None:
    store.send_state({"good": "def good(): return 1\n"}, "def f(:\n")
    outcome = store.host.check("good()")
    assert outcome.result == "1"
    assert outcome.stderr.startswith(b"user_tools.py is not read, but for the saved tools in it: SyntaxError")


def test_tools_reach_servers_that_are_loaded_later(store: HostStore) -> None:
    store.send_state({"ask": "async def ask(): return await mcp_s.echo(n=1)\n"})
    store.host.check("ask")
    server = {"name": "s", "tools": [{"name": "echo"}]}
    assert store.host.value("await ask()", [server]) == "{'n': 1}"


def test_tool_is_saved_with_its_source_imports_and_constants(store: HostStore) -> None:
    store.host.check("import json as j\nfrom math import floor\nRATES = {'a': 1.5}")
    code = "import functools\n\n@functools.lru_cache(maxsize=5)\ndef price(n,  # odd\n          k='a'):\n    return floor(float(j.dumps(n * RATES[k])))\n\nsave_tool(price)"
    assert "RATES as it is now" in str(store.host.value(code))
    head = "from math import floor\nimport functools\nimport json as j\nRATES = {'a': 1.5}\n\n\n"
    assert store.tools["price"] == head + code.partition("\n\n")[2].rpartition("\n\nsave")[0] + "\n"
    namespace: dict[str, object] = {}
    exec(store.tools["price"], namespace)
    assert namespace["price"](3) == 4  # type: ignore[operator]
    assert store.host.value("def twice(n): return price(n) * 2\nsave_tool(twice)\n[t['name'] for t in saved_tools()]") == "['price', 'twice']"
    assert store.tools["twice"] == "def twice(n): return price(n) * 2\n"
    assert store.host.value("delete_tool('twice'), delete_tool('twice')") == "(True, False)"


def test_definition_in_a_block_keeps_the_lines_of_its_strings(store: HostStore) -> None:
    code = "if 1:\n    def page(name):\n        text = f'''<a>\n    {name}\nend'''  # far left\n        return text, '''\n      six'''\n    save_tool(page)\n    shown = page(1)\nshown"
    shown = store.host.check(code).result
    namespace: dict[str, object] = {}
    exec(store.tools["page"], namespace)
    assert repr(namespace["page"](1)) == shown == repr(("<a>\n    1\nend", "\n      six"))  # type: ignore[operator]


def test_classes_and_several_tools_are_saved_together(store: HostStore) -> None:
    store.host.check("class Shape:\n    def area(self): return area(self)\ndef area(shape): return Shape\nsave_tool(Shape, area)")
    assert set(store.tools) == {"Shape", "area"}
    assert store.tools["Shape"] == "class Shape:\n    def area(self): return area(self)\n"


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
def test_tool_that_cannot_be_saved_gives_the_reason(store: HostStore, code: str, expected: str) -> None:
    assert expected in error(store, code)
    assert store.tools == {}


def test_files_are_written_before_code_looks_and_changes_are_reported_after(store: HostStore) -> None:
    large = "x" * 100_000
    store.send_state(
        files=[["a/b.txt", "one"], ["raw", None, "/wA=", False], ["large", large]],
        views=[["memory/k.json", "{}"], ["user_tools.py", "#"]],
    )
    store.host.guest.send(type="state", files=[["large", None, "eQ==", True]], gone=["raw"])
    look = f"# projects\nimport os\nos.chdir({str(store.projects)!r})\nsorted(os.listdir()), open('a/b.txt').read(), len(open('large').read())"
    outcome = store.host.check(look)
    assert outcome.result == "(['a', 'large', 'memory', 'user_tools.py'], 'one', 100001)"
    assert "projects" not in outcome.done
    outcome = store.host.check("open('a/b.txt', 'a').write('!')\nopen('new', 'wb').write(b'\\xff')\nos.remove('large')\nos.symlink('/', 'link')")
    files = outcome.done["projects"]
    assert (sorted(files["changed"]), files["deleted"]) == ([["a/b.txt", 4], ["new", 1]], ["large"])
    assert files["odd"] == [["link", "it is a symbolic link"]]
    # Changes that the host has not collected are reported again.
    assert sorted(store.host.check("1").done["projects"]["changed"]) == [["a/b.txt", 4], ["new", 1]]
    assert store.collect(["new", "a/b.txt", "link", "gone"], ["large"]) == {"new": b"\xff", "a/b.txt": b"one!", "link": None, "gone": None}
    assert store.host.check("os.remove('link')").done.get("projects") is None
    store.host.guest.send(type="forget", paths=["new"])
    assert store.host.check("1").done["projects"]["changed"] == [["new", 1]]


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
def test_files_are_fetched_when_code_looks_at_them_in_any_way(store: HostStore, look: str) -> None:
    store.announce_files(files=[["a", "one"]])
    assert store.host.value("1") == "1"
    assert (store.host.fetches, os.listdir(store.projects)) == (0, [])
    assert store.host.value(ROOT + look) == "'one'"
    assert store.host.fetches == 1
    store.host.check("os.listdir(ROOT)")
    assert store.host.fetches == 1


def test_tool_that_mentions_the_folder_finds_its_files(store: HostStore) -> None:
    store.send_state({"there": f"import os\ndef there():  # projects\n    return os.path.exists({str(store.projects / 'a')!r})\n"})
    store.announce_files(files=[["a", "one"]])
    assert store.host.value("there()") == "True"


def test_view_saved_before_files_arrive_is_newer(store: HostStore) -> None:
    store.announce_files(views=[["memory/k.json", "old"], ["memory/other.json", "{}"]])
    store.host.check("save_memory('k', [1])")
    assert (store.host.fetches, os.listdir(store.projects)) == (0, [])
    assert store.host.value(f"{ROOT}open(ROOT + '/memory/k.json').read(), sorted(os.listdir(ROOT + '/memory'))") == "('[1]', ['k.json', 'other.json'])"


def test_changes_made_before_files_arrive_are_reported(store: HostStore) -> None:
    store.announce_files(files=[["a", "one"], ["b", "two"]])
    # Code can change files without an audit event, for example from C.
    (store.projects / "b").write_text("made here")
    files = store.host.check("1").done["projects"]
    assert files == {"changed": [["b", 9]], "deleted": [], "odd": []}
    assert store.host.fetches == 1 and (store.projects / "a").read_text() == "one"


def test_wait_for_files_can_be_interrupted(store: HostStore) -> None:
    store.announce_files()
    store.host.on_fetch = store.host.guest.interrupt
    assert store.host.run(f"{ROOT}os.listdir(ROOT)").status == "interrupted"
    store.host.guest.send(type="state", files=[["a", "one"]])
    assert store.host.value(f"{ROOT}os.listdir(ROOT)") == "['a']"
    assert store.host.fetches == 1


def test_thread_that_waits_for_files_does_not_block_the_main_thread(store: HostStore) -> None:
    store.announce_files()
    store.host.on_fetch = lambda: None
    store.host.check(
        f"{ROOT}import threading, time\nfound = []\nstate = getattr(sys.modules['_mcp_guest.session'].session, 'proj' + 'ects')\n"
        "thread = threading.Thread(target=lambda: found.append(open(ROOT + '/a').read()))\nthread.start()\n"
        "while not state.requested: time.sleep(0.001)"
    )
    store.host.guest.send(type="state", files=[["b", "two"]], more=True)
    # Long enough for the worker to find that something can be written.
    time.sleep(0.1)
    store.host.guest.send(type="state", files=[["a", "one"]])
    assert store.host.value("thread.join()\nfound") == "['one']"


def test_files_that_were_not_requested_are_written_while_idle(store: HostStore) -> None:
    store.announce_files()
    store.host.check("1")
    # By now the guest has preloaded its modules, and waits.
    time.sleep(1)
    for more in (True, False):
        store.host.guest.send(type="state", files=[[f"more {more}", "one"]], more=more)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(os.listdir(store.projects)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert store.host.fetches == 0


def test_large_files_are_sent_in_pieces_unchanged(store: HostStore) -> None:
    code = f"import os\nos.chdir({str(store.projects)!r})\nopen('text', 'w').write('é' * 5_000_000)\nopen('raw', 'wb').write(bytes(range(256)) * 40_000)\nopen('empty', 'w').close()"
    store.host.check(code)
    found = store.collect(["text", "raw", "empty"])
    assert found == {"text": "é".encode() * 5_000_000, "raw": bytes(range(256)) * 40_000, "empty": b""}


def test_files_that_json_would_inflate_are_sent_unchanged(store: HostStore) -> None:
    code = f"import os\nos.chdir({str(store.projects)!r})\nopen('zeros', 'wb').write(bytes(9_000_000))\nopen('mixed', 'wb').write(b'a\\0\\x1b' * 3_000_000)\nopen('quotes', 'wb').write(b'\"' * 4_000_000)"
    store.host.check(code)
    found = store.collect(["zeros", "mixed", "quotes"])
    assert found == {"zeros": bytes(9_000_000), "mixed": b"a\0\x1b" * 3_000_000, "quotes": b'"' * 4_000_000}


def test_unusual_names_pipes_and_many_files_do_no_harm(store: HostStore) -> None:
    os.mkfifo(store.projects / "pipe")
    with open(os.fsencode(store.projects) + b"/\xff", "w"):
        pass
    (store.projects / "__pycache__").mkdir()
    (store.projects / "__pycache__/x.pyc").write_text("x")
    for number in range(100):
        (store.projects / f"f{number}").write_text("x")
    files = store.host.check("1").done["projects"]
    assert len(files["changed"]) == 100
    assert sorted(files["odd"]) == [["\\udcff", "its name is not UTF-8"], ["pipe", "it is not a regular file"]]


def test_views_follow_memories(store: HostStore) -> None:
    store.host.check("save_memory('k', [1])")
    view = store.projects / "memory/k.json"
    assert view.read_text() == "[1]"
    assert view.stat().st_mode & 0o777 == 0o444 and view.parent.stat().st_mode & 0o777 == 0o555
    store.host.check("save_memory('k', [2])")
    assert view.read_text() == "[2]"
    assert "projects" not in store.host.check("delete_memory('k')").done
    assert not view.exists()


def test_state_modules_are_not_imported_at_the_start() -> None:
    code = f"import sys; sys.path.append({str(RUNTIME)!r}); import _mcp_guest.worker.worker; print([m for m in sys.modules if m.startswith('_mcp_guest.')])"
    ran = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", code], capture_output=True, text=True, check=True)
    for late in ("memory", "saving", "saved_tools", "projects", "sync"):
        assert f"'_mcp_guest.state.{late}'" not in ran.stdout
