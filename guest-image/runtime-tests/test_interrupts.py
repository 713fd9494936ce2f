"""`interrupt` frames: they stop user code of the run that is meant, wherever it is, and nothing
else."""

import os
import signal

import pytest

from guest import Guest, Outcome, is_pid_1

WAITS = {
    "sleep": ("import time\nprint('go')\ntime.sleep(100)", "line 3 (time.sleep)"),
    "busy loop": ("print('go')\nwhile True:\n    pass", None),
    "await": ("import asyncio\nprint('go')\nawait asyncio.sleep(100)", "line 3 (asyncio.sleep)"),
    "await deep inside": (
        "import asyncio\nasync def inner():\n    await asyncio.sleep(100)\nasync def outer():\n    await inner()\n"
        "print('go')\nawait outer()",
        "line 3 (asyncio.sleep)",
    ),
    "busy coroutine": ("async def busy():\n    while True:\n        pass\nprint('go')\nawait busy()", None),
    "asyncio.run": ("import asyncio\nprint('go')\nasyncio.run(asyncio.sleep(100))", "line 3 (asyncio.run)"),
    "busy in asyncio.run": (
        "import asyncio\nasync def busy():\n    print('go')\n    while True:\n        pass\nasyncio.run(busy())",
        None,
    ),
    "busy callback": (
        "import asyncio\ndef busy():\n    print('go')\n    while True:\n        pass\n"
        "asyncio.get_running_loop().call_soon(busy)\nawait asyncio.sleep(100)",
        None,
    ),
    "busy background task": (
        "import asyncio\nasync def busy():\n    print('go')\n    while True:\n        pass\n"
        "t = asyncio.create_task(busy())\nawait asyncio.sleep(100)",
        None,
    ),
    "lock": (
        "import threading\nlock = threading.Lock()\nlock.acquire()\nprint('go')\nlock.acquire()",
        "line 5 (lock.acquire)",
    ),
    "thread join": (
        "import threading\nwait = threading.Event().wait\nt = threading.Thread(target=wait, daemon=True)\nt.start()\n"
        "print('go')\nt.join()",
        "line 6 (t.join)",
    ),
    "child process": (
        "import subprocess, sys\np = subprocess.Popen([sys.executable, '-I', '-c', 'import time; time.sleep(100)'])\n"
        "print('go')\np.wait()",
        "line 4 (p.wait)",
    ),
    "repr": (
        "class Slow:\n    def __repr__(self):\n        print('go')\n        while True:\n            pass\nSlow()",
        None,
    ),
    "library code": ("import queue\nq = queue.Queue()\nprint('go')\nq.get()", "line 4 (q.get)"),
}


@pytest.mark.parametrize("name", WAITS)
def test_interrupt_ends_the_run_and_keeps_variables(guest: Guest, name: str) -> None:
    code, where = WAITS[name]
    guest.check("kept = 42")
    locations: list[str] = []
    # The interrupt may come before the code has reached the line in which it waits.
    while not locations or (where and not locations[-1].endswith(where) and len(locations) < 50):
        guest.execute(code)
        outcome = guest.until_output(b"go\n")
        guest.interrupt()
        outcome = guest.collect(outcome)
        assert outcome.status == "interrupted"
        assert outcome.error["type"] == "KeyboardInterrupt"
        assert outcome.traceback.startswith(f"Traceback (most recent call last):\n  cell {guest.last}, line ")
        locations.append(outcome.done["where"])
        assert locations[-1].startswith(f"cell {guest.last}, line ")
    assert locations[-1].endswith(where or "")
    assert guest.check("kept").result == "42"
    assert guest.check("import asyncio\nawait asyncio.sleep(0)\n1").result == "1"


def test_interrupt_right_after_execute_is_not_lost(guest: Guest) -> None:
    for _ in range(50):
        guest.execute("while True: pass")
        guest.interrupt()
        assert guest.collect().status == "interrupted"
    guest.check("1")


def test_late_and_foreign_interrupts_do_nothing(guest: Guest) -> None:
    guest.check("x = 0")
    for number in range(200):
        guest.execute("for _ in range(50): x += 1")
        guest.interrupt(guest.last - 1)
        guest.interrupt(guest.last + 1)
        assert guest.collect().status == "success"
        guest.interrupt(guest.last)
        assert guest.check("x").result == str((number + 1) * 50)


def test_interrupts_around_the_end_of_runs_never_hit_the_worker_or_the_next_run(guest: Guest) -> None:
    seen = set()
    for number in range(600):
        guest.execute(f"for _ in range({number % 40 * 50}): pass\n{number}")
        guest.interrupt()
        guest.interrupt()
        outcome = guest.collect()
        seen.add(outcome.status)
        assert outcome.status in ("success", "interrupted")
        assert guest.check(f"{number} + 1").result == str(number + 1)
    assert "interrupted" in seen


def test_queued_runs_can_be_interrupted_one_by_one(guest: Guest) -> None:
    guest.execute("while True: pass")
    guest.execute("print('go')\nwhile True: pass")
    guest.interrupt(1)
    first = Outcome()
    while not first.done:
        first.take(guest.next())
    assert (first.done["id"], first.status) == (1, "interrupted")
    # The second run may print before the end of the first is reported.
    outcome = None if first.stdout else guest.until_output(b"go\n")
    guest.interrupt(2)
    assert guest.collect(outcome).status == "interrupted"
    assert guest.check("1").result == "1"


def test_code_that_catches_the_interrupt_succeeds(guest: Guest) -> None:
    guest.execute(
        "import time\ntry:\n    print('go')\n    time.sleep(100)\nexcept KeyboardInterrupt:\n    print('caught')"
    )
    outcome = guest.until_output(b"go\n")
    guest.interrupt()
    outcome = guest.collect(outcome)
    assert outcome.status == "success"
    assert outcome.stdout == b"go\ncaught\n"
    assert outcome.done["where"] is None


def test_code_that_swallows_one_interrupt_gets_the_next(guest: Guest) -> None:
    guest.execute(
        "import time\nfor _ in range(2):\n    try:\n        print('go', flush=True)\n        time.sleep(100)\n"
        "    except KeyboardInterrupt:\n        print('no')\nprint('go on')\ntime.sleep(100)"
    )
    outcome = guest.until_output(b"go\n")
    guest.interrupt()
    outcome = guest.until_output(b"no\ngo\n")
    guest.interrupt()
    outcome = guest.until_output(b"go on\n")
    guest.interrupt()
    assert guest.collect(outcome).status == "interrupted"


def test_finally_blocks_run_when_a_wait_is_interrupted(guest: Guest) -> None:
    guest.execute(
        "import asyncio\nasync def work():\n    try:\n        print('go')\n        await asyncio.sleep(100)\n"
        "    finally:\n        await asyncio.sleep(0)\n        print('cleaned')\nawait asyncio.gather(work(), work())"
    )
    outcome = guest.until_output(b"go\ngo\n")
    guest.interrupt()
    outcome = guest.collect(outcome)
    assert outcome.status == "interrupted"
    assert outcome.stdout == b"go\ngo\ncleaned\ncleaned\n"


def test_background_task_survives_an_interrupted_wait(guest: Guest) -> None:
    guest.execute(
        "import asyncio\nticks = 0\nasync def tick():\n    global ticks\n    while True:\n        ticks += 1\n"
        "        await asyncio.sleep(0)\nt = asyncio.create_task(tick())\nawait asyncio.sleep(0)\nprint('go')\n"
        "await asyncio.sleep(100)"
    )
    outcome = guest.until_output(b"go\n")
    guest.interrupt()
    assert guest.collect(outcome).status == "interrupted"
    assert guest.check("before = ticks\nawait asyncio.sleep(0.01)\nticks > before and not t.done()").result == "True"


def test_keyboard_interrupt_raised_by_code_is_an_ordinary_error(guest: Guest) -> None:
    outcome = guest.run("raise KeyboardInterrupt")
    assert outcome.status == "error"
    assert outcome.error["type"] == "KeyboardInterrupt"
    outcome = guest.run("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfor _ in range(10**6): pass")
    assert outcome.status == "error"
    assert outcome.done["where"] is None


def test_handlers_of_user_code_may_be_set_and_restored(guest: Guest) -> None:
    guest.check("import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)")
    guest.execute("print('go')\nwhile True: pass")
    outcome = guest.until_output(b"go\n")
    guest.interrupt()
    assert guest.collect(outcome).status == "interrupted"
    for _ in range(20):
        guest.execute("pass")
        guest.interrupt()
        guest.collect()
        guest.check("1")


@pytest.mark.skipif(is_pid_1(), reason="needs the worker's PID")
def test_signal_handler_that_raises_between_runs_is_reported(guest: Guest) -> None:
    guest.check(
        "import signal\ndef ring(*_):\n    raise LookupError('ring')\nsignal.signal(signal.SIGALRM, ring)\n"
        "signal.signal(signal.SIGUSR1, lambda *_: exit(5))"
    )
    for number, last in ((signal.SIGALRM, "LookupError: ring\n"), (signal.SIGUSR1, "SystemExit: 5\n")) * 20:
        os.kill(guest.ready["pid"], number)
        frame = guest.next()
        assert frame["type"] == "stderr"
        assert frame["data"].endswith(last)
        assert guest.check("1").result == "1"


LOSE = """
import _signal
real = _signal.pthread_kill
def lose(*_):
    _signal.pthread_kill = real
_signal.pthread_kill = lose
"""


@pytest.mark.parametrize("name", ["sleep", "await", "lock"])
def test_interrupt_just_before_a_system_call_is_repeated(guest: Guest, name: str) -> None:
    guest.execute(f"{LOSE}{WAITS[name][0]}")
    printed = guest.until_output(b"go\n")
    guest.interrupt()
    assert guest.collect(printed).status == "interrupted"
    assert guest.check("1 + 1").result == "2"


def test_user_handler_gets_one_signal_per_interrupt(guest: Guest) -> None:
    code = """
import signal, time
before = signal.signal(signal.SIGINT, lambda *_: seen.append(time.monotonic()))
seen = []
print('go')
end = time.monotonic() + 60
while time.monotonic() < (seen[0] + 0.5 if seen else end):
    pass
_ = signal.signal(signal.SIGINT, before)
len(seen)"""
    guest.execute(code)
    printed = guest.until_output(b"go\n")
    guest.interrupt()
    assert guest.collect(printed).result == "1"
