"""Errors that come from what is different here say so; what can work as elsewhere, does."""

import os

import pytest

from guest import Guest
from host import Host

in_image = pytest.mark.skipif("GUEST_PYTHON" not in os.environ, reason="only an image lacks a shell")
NO_INSTALL = "packages cannot be installed from here: the user adds them to the image"


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("!pip install pandas", NO_INSTALL),
        ("x = 1\n%pip install pandas", NO_INSTALL),
        ("pip install pandas", NO_INSTALL),
        ("!ls -l", "this sandbox has no shell"),
        ("%matplotlib inline\nx = 1", "open figures are shown at the end of the run"),
        ("def f(): pass\n%time f()", "use time.perf_counter()"),
        ("%%timeit\n1", "use time.perf_counter()"),
        ("%load_ext autoreload", "use plain Python"),
        ("```python\nx = 1\n```", "without the Markdown fences"),
        ("x = 1\n```", "without the Markdown fences"),
        ("import missing_package.part", f"missing_package is not installed, and {NO_INSTALL}"),
        ("from missing_package import part", f"missing_package is not installed, and {NO_INSTALL}"),
        ("async def f(): return {}\nx = f()\nx['a']", "`await` is missing"),
        ("async def f(): return {}\nx = f()\nx.get('a')", "`await` is missing"),
        ("async def f(): return []\nfor x in f(): pass", "`await` is missing"),
        ("async def f(): return 1\n1 + f()", "`await` is missing"),
        ("async def f(): return 1\nlen(f())", "`await` is missing"),
        ("import socket\nraise socket.gaierror(-3, 'failed')", "this sandbox has no network"),
        ("import subprocess\nsubprocess.run(['/no/such/program'])", "" if os.path.exists("/bin/sh") and "GUEST_PYTHON" not in os.environ else "this sandbox has no shell"),
    ],
)
def test_error_has_a_hint(shared: Guest, code: str, hint: str) -> None:
    outcome = shared.run(code)
    assert outcome.status == "error"
    assert hint in outcome.traceback
    assert ("\nhint: " in outcome.traceback) == bool(hint)
    assert "hint: " not in outcome.error["message"]


@pytest.mark.parametrize("code", ["x = = 1", "x = 5 %% 3", "1 + 'a'", "None.x", "import json.missing", "open('missing')", "eval('!ls')", "raise RuntimeError"])
def test_other_errors_have_none(shared: Guest, code: str) -> None:
    assert "hint: " not in shared.run(code).traceback


def test_hint_is_given_once_for_an_error_that_is_raised_again(shared: Guest) -> None:
    shared.run("try: import missing_package\nexcept ImportError as error: kept = error\nraise kept")
    assert shared.run("raise kept").traceback.count("hint: ") == 1


def test_servers_can_be_imported_by_the_names_of_their_variables(shared_host: Host) -> None:
    assert shared_host.value("import mcp_github\nmcp_github is mcp_servers['github']") == "True"
    assert shared_host.value("from mcp_git_hub import get_user\nget_user.tool") == "'get-user'"
    assert shared_host.value("import mcp_github as gh\nfrom mcp_github import *\ncreate_issue is gh.create_issue") == "True"
    assert "is known but not loaded; call run_python with servers" in shared_host.run("import mcp_jira").error["message"]
    assert 'no server "gitub"; known: ' in shared_host.run("import mcp_gitub").traceback


def test_child_interpreters_see_the_installed_packages(guest: Guest) -> None:
    code = """
import subprocess, sys
program = 'import sys; print(sys.path)'
outputs = [subprocess.run([sys.executable, *flags, '-c', program], capture_output=True, text=True).stdout for flags in ([], subprocess._args_from_interpreter_flags())]
[sys.path[-1] in eval(output) for output in outputs]
"""
    packages = guest.check("import os, sys\nos.path.isdir(sys.path[-1])").result
    if packages == "True":
        assert guest.check(code).result == "[True, True]"
    assert guest.check("subprocess._args_from_interpreter_flags()" if packages == "True" else "import subprocess\nsubprocess._args_from_interpreter_flags()").result == "[]"


def test_processes_can_be_spawned(guest: Guest) -> None:
    guest.check("open('work.py', 'w').write('def double(x): return 2 * x')")
    code = "import multiprocessing, work\nwith multiprocessing.get_context('spawn').Pool(1) as pool:\n    r = pool.map(work.double, [1, 2])\nr"
    assert guest.check(code).result == "[2, 4]"


@in_image
def test_image_without_a_shell_says_so(guest: Guest) -> None:
    outcome = guest.check("import os\nos.system('ls')")
    assert (outcome.result, outcome.stderr) == ("32512", b"os.system: this sandbox has no shell and no program but Python; nothing was done\n")
    assert "hint: this sandbox has no shell" in guest.run("import subprocess\nsubprocess.run('ls', shell=True)").traceback
    assert "hint: this sandbox has no shell" in guest.run("os.popen('ls')").traceback


@in_image
def test_image_has_python_by_its_usual_names(guest: Guest) -> None:
    code = "import subprocess\n[subprocess.run([name, '-c', 'print(6)'], capture_output=True).stdout for name in ('python', 'python3', '/usr/bin/python3')]"
    assert guest.check(code).result == "[b'6\\n', b'6\\n', b'6\\n']"


@in_image
def test_image_has_the_old_names_of_time_zones(guest: Guest) -> None:
    names = ("US/Eastern", "Asia/Calcutta", "Europe/Kiev", "EST5EDT", "GB", "Japan")
    assert guest.check(f"import zoneinfo\n[zoneinfo.ZoneInfo(name).key for name in {names}] == list({names})").result == "True"


def test_limits_are_named_when_children_fail(guest: Guest) -> None:
    code = "import subprocess\nraise subprocess.CalledProcessError(-9, ['x'])"
    assert "hint: a child process was killed, perhaps at a limit: " in guest.run(code).traceback
    assert "hint: " not in guest.run(code.replace("-9", "1")).traceback
