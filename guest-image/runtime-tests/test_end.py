"""How a guest ends: with its worker's status, or with its host, and it never hangs."""

import os
import signal
import time

import pytest

from guest import PATIENCE_SECONDS, Frame, Guest, is_pid_1

DEATHS = {
    "os._exit(7)": 7,
    "os._exit(0)": 0,
    "os.abort()": 128 + signal.SIGABRT,
    "os.kill(os.getpid(), 9)": 128 + signal.SIGKILL,
    "os.kill(os.getpid(), 15)": 128 + signal.SIGTERM,
    "os.kill(os.getpid(), signal.SIGSEGV)": 128 + signal.SIGSEGV,
    "os.killpg(0, 9)": 128 + signal.SIGKILL,
    "import faulthandler; faulthandler._sigsegv()": 128 + signal.SIGSEGV,
}


@pytest.mark.parametrize("code", DEATHS)
def test_death_of_the_worker_is_reported_after_its_output(guest: Guest, code: str) -> None:
    guest.execute(f"import os, signal\nprint('x' * 50_000)\nos.write(2, b'last words')\n{code}")
    outcome, status = guest.end()
    assert outcome.stdout == b"x" * 50_000 + b"\n"
    assert outcome.stderr == b"last words"
    # On some machines the control group is visible here; it has not killed anything.
    assert outcome.frames[-1].pop("out_of_memory") in (None, False)
    assert outcome.frames[-1] == {"type": "exit", "code": DEATHS[code]}
    assert status == DEATHS[code]
    assert not outcome.done


def test_dropped_bytes_are_reported_before_the_exit(guest: Guest) -> None:
    guest.execute("import os\nprint('x' * 999, flush=True)\nos._exit(1)", 100)
    outcome, _ = guest.end()
    assert outcome.stdout == b"x" * 100
    assert [frame["type"] for frame in outcome.frames][-2:] == ["dropped", "exit"]
    assert outcome.dropped() == {"stdout": 900, "stderr": 0}


def test_user_code_is_killed_first_when_memory_is_short(guest: Guest) -> None:
    assert guest.check("open('/proc/self/oom_score_adj').read()").result == "'1000\\n'"


def test_open_files_and_core_dumps_are_limited_before_the_first_run(guest: Guest) -> None:
    def run(code: str, open_files: int) -> str | None:
        guest.last += 1
        limits = {"output_bytes": 1 << 20, "open_files": open_files}
        guest.send(type="execute", id=guest.last, cell=guest.last, code=f"import resource\n{code}", limits=limits)
        return guest.collect().result

    found = "resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CORE)"
    assert run(found, 256) == "((256, 256), (0, 0))"
    run("resource.setrlimit(resource.RLIMIT_NOFILE, (128, 200))", 256)
    assert run(found, 256) == "((128, 200), (0, 0))", "what code sets for itself stays"


def test_children_die_with_the_worker(guest: Guest) -> None:
    guest.execute(
        "import os, time\nfor _ in range(3):\n    if os.fork() == 0:\n        while True: time.sleep(100)\n"
        "print('ready', flush=True)\nos._exit(3)"
    )
    outcome, status = guest.end()
    assert status == 3
    # The children have the pipe of stdout open; the guest does not wait for them and kills them.
    assert outcome.stdout == b"ready\n"


@pytest.mark.parametrize(
    "code",
    [
        "import time\nprint('go')\ntime.sleep(1000)",
        "print('go')\nwhile True: pass",
        "print('go')\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass",
        # Holds the interpreter lock in C for longer than any timeout.
        "import itertools\nprint('go', flush=True)\nsum(itertools.repeat(1))",
        "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\nprint('go')\nwhile True: pass",
        "import os, time\nprint('go', flush=True)\nwhile True:\n    if os.fork() == 0:\n        time.sleep(1000)\n    os.wait()",
        "import os, signal\nprint('go', flush=True)\nos.kill(os.getpid(), signal.SIGSTOP)",
    ],
)
def test_guest_ends_with_its_host_whatever_code_does(guest: Guest, code: str) -> None:
    guest.execute(code)
    guest.until_output(b"go")
    guest.stdin.close()
    assert guest.wait() == 0


def test_idle_guest_ends_with_its_host(guest: Guest) -> None:
    guest.stdin.close()
    assert guest.wait() == 0


def test_guest_ends_when_the_host_closes_its_output(guest: Guest) -> None:
    guest.execute("while True: print('x' * 1000)")
    guest.until_output(b"x")
    guest.stdout.close()
    assert guest.wait() == 0


@pytest.mark.skipif(is_pid_1(), reason="the started process is not the guest itself")
def test_sigterm_ends_the_guest_promptly(guest: Guest) -> None:
    guest.execute("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('go')\nwhile True: pass")
    guest.until_output(b"go")
    guest.process.terminate()
    outcome, status = guest.end()
    assert (outcome.frames[-1]["type"], outcome.frames[-1]["code"]) == ("exit", 143)
    assert status == 143


def test_closing_low_descriptors_loses_only_output(guest: Guest) -> None:
    guest.run("import os\nprint('before', flush=True)\nos.closerange(0, 300)")
    outcome = guest.run("x = 1\nx")
    assert outcome.status == "success"
    assert outcome.result == "1"


def test_closing_every_descriptor_ends_the_guest(guest: Guest) -> None:
    guest.execute("import os\nprint('before', flush=True)\nos.closerange(0, 5000)\nx = 1")
    outcome, status = guest.end()
    assert outcome.stdout == b"before\n"
    assert (outcome.frames[-1]["code"], status) == (status, status)
    assert status in (70, 71)


def test_closing_the_channel_and_going_on_ends_the_guest(guest: Guest) -> None:
    guest.execute("import os\nos.closerange(3, 5000)\nwhile True: pass")
    _, status = guest.end()
    assert status in (70, 71)


def test_replacing_the_channel_ends_the_guest(guest: Guest) -> None:
    guest.execute(
        "import os\nnull = os.open('/dev/null', os.O_RDWR)\nfor n in range(3, 1000):\n    if n != null: os.dup2(null, n)"
    )
    _, status = guest.end()
    assert status in (70, 71)


def test_frames_forged_on_every_descriptor_do_no_harm(guest: Guest) -> None:
    guest.execute(
        'import os\nforged = b\'{"type":"execution_done","id":99,"status":"success"}\\n\'\n'
        "for n in range(1024):\n    try: os.write(n, forged)\n    except OSError: pass"
    )
    frames: list[Frame] = []
    while not frames or frames[-1].get("id") != guest.last:
        frames.append(guest.next())
    forged = [frame for frame in frames if frame.get("id") == 99]
    printed = "".join(frame["data"] for frame in frames if frame["type"] == "stdout")
    assert printed.startswith('{"type":"execution_done"')
    assert len(forged) <= 2, "only by searching for the private descriptor"
    assert guest.check("1").result == "1"


def test_commands_for_init_cannot_be_forged_on_the_streams(guest: Guest) -> None:
    outcome = guest.check("import os\nos.write(1, b'!begin 1\\n!end\\n')\nprint('x' * 100)", 50)
    assert outcome.stdout == (b"!begin 1\n!end\n" + b"x" * 100)[:50]


def test_garbage_on_the_private_channel_ends_the_guest(guest: Guest) -> None:
    guest.execute(
        "import os\nfor n in range(800, 1024):\n    try:\n        while True: os.write(n, b'!' * 65536)\n    except OSError: pass"
    )
    outcome, status = guest.end()
    assert status == 70
    assert (outcome.frames[-1]["type"], outcome.frames[-1]["code"]) == ("exit", 70)


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b"[]\n",
        b'"execute"\n',
        b"{}\n",
        b"\xff\xfe\n",
        b"\n",
        b'{"type":"execute"}\n',
        b'{"type":"execute","id":"x","code":"1"}\n',
        b'{"type":"execute","id":1,"code":5}\n',
        b'{"type":"execute","id":1,"code":"1"} trailing\n',
        b'{"type":"execute","id":1,"code":"\n"}\n',
        b"[" * 100_000 + b"\n",
        b'{"type":' + b"9" * 10_000 + b"}\n",
        b"x" * ((32 << 20) + (128 << 10)),
    ],
    ids=lambda line: repr(line[:30]),
)
def test_malformed_frame_from_the_host_ends_the_guest(guest: Guest, line: bytes) -> None:
    guest.write(line)
    outcome, status = guest.end()
    assert status == 70
    assert outcome.stderr.startswith(b"mcp guest: malformed frame from the host: ")
    assert outcome.stderr.count(b"\n") == 1
    assert len(outcome.stderr) < 300


def test_unknown_frames_and_fields_are_ignored(guest: Guest) -> None:
    guest.send(type="weather", id=[1])
    guest.send(type="interrupt", id={"a": 1})
    guest.last = 5
    guest.send(type="execute", id=5, code="print('x' * 9)\n3", servers=["a"], limits={"output_bytes": -1}, more=None)
    outcome = guest.collect()
    assert outcome.result == "3"
    assert outcome.stdout == b"x" * 9 + b"\n"


def test_frame_of_fifteen_megabytes_arrives_in_pieces(guest: Guest) -> None:
    assert guest.check("len('" + "x" * 15_000_000 + "')").result == "15000000"


@pytest.mark.skipif(not is_pid_1(), reason="needs guests that are alone in a PID namespace")
def test_pid_1_survives_signals_and_reaps(guest: Guest) -> None:
    code = (
        "import os, signal\nfor n in range(1, 65):\n    if n not in (signal.SIGTERM, 32, 33): os.kill(1, n)\n"
        "pids = []\nfor _ in range(50):\n    if os.fork() == 0:\n        if os.fork() == 0: os._exit(0)\n        os._exit(0)\n"
        "for _ in range(50): os.wait()\nos.getppid()"
    )
    assert guest.check(code).result == "1"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while guest.check("len([n for n in os.listdir('/proc') if n.isdigit()])").result != "2":
        assert time.monotonic() < deadline, "orphans were not reaped"


@pytest.mark.skipif(is_pid_1(), reason="PIDs of another namespace")
def test_nothing_is_left_behind(guest: Guest) -> None:
    pids = guest.check(
        "import os, subprocess, sys\np = subprocess.Popen([sys.executable, '-I', '-c', 'input()'], stdin=subprocess.PIPE)\n"
        "os.getpid(), p.pid"
    ).result
    assert pids is not None
    guest.stdin.close()
    assert guest.wait() == 0
    deadline = time.monotonic() + PATIENCE_SECONDS
    for pid in pids.strip("()").split(", "):
        while os.path.exists(f"/proc/{pid}") and not _is_zombie(pid):
            assert time.monotonic() < deadline


def _is_zombie(pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as status:
            return status.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
