"""What code expects from an ordinary Python process."""

import json
from pathlib import Path

import pytest

from guest import Guest

SAME = {
    "main module": ("import __main__, sys\n__name__, __main__ is sys.modules['__main__']", "('__main__', True)"),
    "main has its names": ("x = 3\nimport __main__\n__main__.x", "3"),
    "pickle of own classes": (
        "import pickle\nclass C:\n    v = 1\nc = pickle.loads(pickle.dumps(C()))\ntype(c) is C, pickle.loads(pickle.dumps(len))",
        "(True, <built-in function len>)",
    ),
    "argv": ("import sys\nsys.argv", "['']"),
    "imports from the working directory": ("open('helper.py', 'w').write('v = 8')\nimport helper\nhelper.v", "8"),
    "no byte code is written": ("import os\nos.path.exists('__pycache__')", "False"),
    "stdin is empty": ("import sys\nsys.stdin.read(), sys.stdin.buffer.read()", "('', b'')"),
    "buffer and encoding": (
        "import sys\nsys.stdout.encoding, sys.stdout.isatty(), sys.stdout.fileno(), sys.stdout.buffer.write(b''), sys.stdout.name",
        "('utf-8', False, 1, 0, '<stdout>')",
    ),
    "inspect": (
        "import inspect\ndef f():\n    return 1  # here\ninspect.getsource(f)",
        "'def f():\\n    return 1  # here\\n'",
    ),
    "dataclasses and typing": (
        "import dataclasses, typing\n@dataclasses.dataclass\nclass D:\n    a: int\ntyping.get_type_hints(D), D(1)",
        "({'a': <class 'int'>}, D(a=1))",
    ),
    "threads": (
        "import threading\nout = []\nt = threading.Thread(target=out.append, args=(1,))\nt.start(); t.join()\n"
        "out, threading.active_count(), threading.main_thread() is threading.current_thread()",
        "([1], 1, True)",
    ),
    "thread pool": (
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as p:\n    r = list(p.map(abs, [-1, -2]))\nr",
        "[1, 2]",
    ),
    "subprocess": (
        "import subprocess, sys\nsubprocess.run([sys.executable, '-I', '-c', 'print(6)'], capture_output=True).stdout",
        "b'6\\n'",
    ),
    "children inherit no private descriptor": (
        "import subprocess, sys\nprogram = 'import os; print(sorted(int(n) for n in os.listdir(\"/proc/self/fd\"))[:-1])'\n"
        "subprocess.run([sys.executable, '-I', '-c', program], capture_output=True, close_fds=False).stdout",
        "b'[0, 1, 2]\\n'",
    ),
    "fork children neither": (
        "import os, sys\nif os.fork() == 0:\n    fds = [int(n) for n in os.listdir('/proc/self/fd')]\n"
        "    os._exit(sum(n > 50 for n in fds))\nos.waitstatus_to_exitcode(os.wait()[1])",
        "0",
    ),
    "multiprocessing": (
        "import multiprocessing\ndef double(x):\n    print('in child', flush=True)\n    return 2 * x\n"
        "with multiprocessing.Pool(1) as pool:\n    r = pool.map(double, [1, 2])\nr",
        "[2, 4]",
    ),
    "process pool": (
        "from concurrent.futures import ProcessPoolExecutor\ndef half(x): return x / 2\n"
        "with ProcessPoolExecutor(1) as pool:\n    r = list(pool.map(half, [2, 4]))\nr",
        "[1.0, 2.0]",
    ),
    "tempfile and sqlite": (
        "import sqlite3, tempfile\nwith tempfile.NamedTemporaryFile() as f:\n    sqlite3.connect(f.name).execute('create table t (x)')\n1",
        "1",
    ),
    "descriptors start low": ("import os\nfd = os.open('/dev/null', 0)\nos.close(fd)\nfd < 10", "True"),
    "broken pipe is an error": (
        "import os\nr, w = os.pipe()\nos.close(r)\ntry: os.write(w, b'x')\nexcept BrokenPipeError as e: caught = type(e).__name__\ncaught",
        "'BrokenPipeError'",
    ),
    "the sandbox's own module": (
        "import mcp.runtime\nfrom mcp import runtime\nfrom mcp.runtime import MCPError\n"
        "issubclass(MCPError, RuntimeError), mcp.runtime is runtime",
        "(True, True)",
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_works_as_in_an_ordinary_python(guest: Guest, name: str) -> None:
    code, expected = SAME[name]
    outcome = guest.check(code)
    assert outcome.result == expected
    assert outcome.stderr == b""


def test_main_module_is_like_a_script(guest: Guest) -> None:
    code = "if __name__ == '__main__':\n    import sys\n    print(sys.version_info[0], __doc__, __file__ if 0 else '')"
    assert guest.check(code).stdout == b"3 None \n"


def test_input_raises_an_error_with_advice(guest: Guest) -> None:
    outcome = guest.run("name = input('Name? ')")
    assert outcome.stdout == b"Name? "
    assert outcome.error["type"] == "EOFError"
    assert "put the value into the code" in outcome.error["message"]


def test_breakpoint_does_not_hang(guest: Guest) -> None:
    outcome = guest.run("breakpoint()\nx = 1")
    assert outcome.done
    assert guest.check("1").result == "1"


def test_site_builtins(guest: Guest) -> None:
    assert b"abs(x" in guest.check("help(abs)").stdout
    assert guest.check("help()\n1").result == "1"
    assert b"Python Software Foundation" in guest.check("print(copyright)").stdout
    assert guest.check("exit").result == "Use exit() to end this run; variables are kept."
    assert guest.check("license()\ncredits\nNone").done


def test_warnings_are_shown_once_per_line_of_each_cell(guest: Guest) -> None:
    code = "import warnings\ndef f():\n    warnings.warn('old', DeprecationWarning)\nfor _ in range(3): f()"
    for cell in (1, 2):
        stderr = guest.check(code).stderr.decode()
        assert stderr == (f"<cell {cell}>:3: DeprecationWarning: old\n  warnings.warn('old', DeprecationWarning)\n")


@pytest.mark.parametrize("code", ["'\\d'", "x = 5\nx is 5", "assert (1, 'always')"])
def test_warnings_of_the_compiler_are_shown_once(guest: Guest, code: str) -> None:
    stderr = guest.check(code).stderr.decode()
    if code == "'\\d'" and guest.version < (3, 12):
        return  # It is a DeprecationWarning there, which Python hides.
    assert stderr.count("Warning: ") == 1, stderr


def test_fork_warning_ignores_the_reader_thread(guest: Guest) -> None:
    fork = "import os\npid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)[1]"
    outcome = guest.check(fork)
    assert (outcome.result, outcome.stderr) == ("0", b"")
    guest.check("import threading\nstop = threading.Event()\nt = threading.Thread(target=stop.wait)\nt.start()")
    warned = guest.check("if True:\n    pid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)[1]")
    assert (b"multi-threaded" in warned.stderr) == (guest.version >= (3, 12))
    guest.check("stop.set()")


def test_errors_of_threads_and_tasks_are_on_stderr(guest: Guest) -> None:
    outcome = guest.check("import threading\nt = threading.Thread(target=lambda: 1/0)\nt.start()\nt.join()")
    assert b"ZeroDivisionError" in outcome.stderr
    assert b"<cell 1>" in outcome.stderr


def test_search_path_has_user_files_library_runtime_and_packages_in_order(guest: Guest) -> None:
    path = guest.check("import sys, json\nprint(json.dumps(sys.path))").stdout
    entries = json.loads(path)
    assert entries[0] == ""
    assert entries[-2].endswith(("/runtime", "/opt/guest"))
    assert entries[-1].endswith("/site-packages")


def test_variables_of_the_engine_do_not_reach_the_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOSTNAME", "TERM", "container"):
        monkeypatch.setenv(name, "podman")
    guest = Guest(tmp_path)
    try:
        names = "('HOSTNAME', 'TERM', 'container')"
        assert guest.run(f"import os; [name for name in {names} if name in os.environ]").result == "[]"
        child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import os; print(sorted(os.environ))'])"
        assert not {"HOSTNAME", "TERM", "container"} & set(eval(guest.run(child).stdout))
    finally:
        guest.close()
