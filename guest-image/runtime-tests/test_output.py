"""Captured output: unchanged up to the budget and in order, whoever writes it and however."""

import fcntl
import hashlib
import random
import sys
import termios
import time

import pytest

from guest import PATIENCE_SECONDS, Guest, Outcome


def test_text_arrives_unchanged(guest: Guest) -> None:
    assert guest.check('print("a\\n\\n b")').stdout == b"a\n\n b\n"
    outcome = guest.check("import sys\nprint('é€😀', end='')\nsys.stderr.write('to stderr')")
    assert (outcome.stdout, outcome.stderr) == ("é€😀".encode(), b"to stderr")
    assert all("base64" not in frame for frame in outcome.frames)


def test_bytes_that_are_not_utf8_arrive_unchanged(guest: Guest) -> None:
    everything = bytes(range(256)) * 300
    outcome = guest.check("import sys\nsys.stdout.buffer.write(bytes(range(256)) * 300)\nNone")
    assert outcome.stdout == everything
    outcome = guest.check("sys.stdout.buffer.write('é'.encode()[:1])\nNone")
    assert outcome.stdout == b"\xc3"


def test_surrogates_can_be_printed(guest: Guest) -> None:
    outcome = guest.check("import os, sys\nprint('\\ud800', os.fsdecode(b'\\xff'))\nprint('\\udfff', file=sys.stderr)")
    assert outcome.stdout == b"\\ud800 \xff\n"
    assert outcome.stderr == b"\\udfff\n"
    outcome = guest.run("raise ValueError('\\ud800')")
    assert outcome.error["message"] == "\\ud800"


def test_characters_are_never_split_between_frames(guest: Guest) -> None:
    text = "é€😀" * 40_000
    outcome = guest.check("import sys\nfor _ in range(40_000): sys.stdout.write('é€😀')", 1 << 23)
    assert outcome.stdout == text.encode()
    assert all("data" in frame for frame in outcome.frames if frame["type"] == "stdout")


def test_frames_are_coalesced_and_bounded(guest: Guest) -> None:
    outcome = guest.check("for i in range(20_000): print(i)", 1 << 23)
    assert outcome.stdout == b"".join(b"%d\n" % number for number in range(20_000))
    sizes = [len(frame["data"]) for frame in outcome.frames if frame["type"] == "stdout"]
    assert max(sizes) <= 65536
    assert len(sizes) < 200


def test_five_megabytes_arrive_unchanged(guest: Guest) -> None:
    code = "import random, sys\ndata = random.Random(7).randbytes(5_000_000)\nsys.stdout.buffer.write(data)\nNone"
    outcome = guest.check(code, 1 << 24)
    assert hashlib.sha256(outcome.stdout).digest() == hashlib.sha256(random.Random(7).randbytes(5_000_000)).digest()
    assert guest.check("print('a' * 70_000)").stdout == b"a" * 70_000 + b"\n"


def test_output_of_children_and_descriptors_is_captured(guest: Guest) -> None:
    code = (
        "import os, subprocess, sys\nprint('python')\nos.write(1, b'descriptor\\n')\n"
        'program = \'import os; print("child"); os.write(2, b"child error")\'\n'
        "subprocess.run([sys.executable, '-I', '-c', program], check=True)\n"
        "print('end')"
    )
    outcome = guest.check(code)
    assert outcome.stdout == b"python\ndescriptor\nchild\nend\n"
    assert outcome.stderr == b"child error"


def test_output_precedes_the_end_of_its_run(guest: Guest) -> None:
    for number in range(300):
        outcome = guest.check(f"import os\nos.write(2, b'e{number}')\nprint({number})")
        assert outcome.stdout == b"%d\n" % number
        assert outcome.stderr == b"e%d" % number


@pytest.mark.parametrize("budget", [0, 1, 10, 1000, 65536, 100_001])
def test_budget_is_exact_and_dropped_bytes_are_counted(shared: Guest, budget: int) -> None:
    code = "import sys\nfor _ in range(100): print('x' * 999)\nsys.stderr.write('short')\nNone"
    outcome = shared.check(code, budget)
    assert outcome.stdout == ((b"x" * 999 + b"\n") * 100)[:budget]
    assert outcome.stderr == b"short"[:budget]
    assert outcome.dropped() == {"stdout": max(0, 100_000 - budget), "stderr": max(0, 5 - budget)}
    assert shared.check("print(1)").dropped() == {"stdout": 0, "stderr": 0}


def test_budget_never_cuts_a_character(guest: Guest) -> None:
    outcome = guest.check("print('€' * 10, end='')", 10)
    assert outcome.stdout == "€€€".encode()
    assert outcome.dropped() == {"stdout": 21, "stderr": 0}


def test_output_between_runs_is_sent_or_counted(guest: Guest) -> None:
    guest.check(
        "import threading, sys\nstep = threading.Event()\ndef work():\n    step.wait()\n"
        "    print('x' * 500, flush=True)\n    done.set()\ndone = threading.Event()\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "threading.Timer(0.05, step.set).start()",
        100,
    )
    outcome = Outcome()
    while not outcome.stdout:
        outcome.take(guest.next())
    assert outcome.stdout == b"x" * 100
    assert guest.check("done.wait()\nNone", 100).dropped() == {"stdout": 401, "stderr": 0}


def test_host_that_does_not_read_blocks_the_writer_and_loses_nothing(guest: Guest) -> None:
    guest.execute("import sys\nn = 0\nfor _ in range(400): n += sys.stdout.write('y' * 9_999 + '\\n')\nn", 1 << 30)
    outcome = guest.until_output(b"y")
    _wait_until_full(guest)
    memory = _peak_kilobytes(guest)
    outcome = guest.collect(outcome)
    assert outcome.stdout == (b"y" * 9_999 + b"\n") * 400
    assert outcome.result == "4000000"
    assert memory < 40_000


def _wait_until_full(guest: Guest) -> None:
    """Waits until the pipe from the guest is nearly full: a frame may leave most of its last page
    unused."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    capacity = fcntl.fcntl(guest.stdout, fcntl.F_GETPIPE_SZ)
    waiting = 0
    while waiting < capacity // 2:
        assert time.monotonic() < deadline
        waiting = int.from_bytes(fcntl.ioctl(guest.stdout, termios.FIONREAD, b"\0" * 4), sys.byteorder)


def _peak_kilobytes(guest: Guest) -> int:
    with open(f"/proc/{guest.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def test_unread_output_does_not_grow_the_guest_or_keep_it_from_ending(guest: Guest) -> None:
    guest.execute("while True: print('z' * 10_000)", 1 << 40)
    guest.until_output(b"z")
    _wait_until_full(guest)
    assert _peak_kilobytes(guest) < 40_000
    guest.stdin.close()
    assert guest.wait() == 0


def test_partial_line_is_flushed(guest: Guest) -> None:
    assert guest.check("print('no newline', end='')").stdout == b"no newline"
    assert guest.check("import sys\nsys.stdout.buffer.write(b'raw')\nNone").stdout == b"raw"


def test_streams_replaced_by_user_code_are_flushed(guest: Guest) -> None:
    code = "import sys\nsys.stdout = open(1, 'w', closefd=False)\nprint('through my own')"
    assert guest.check(code).stdout == b"through my own\n"
    assert guest.check("sys.stdout = None\nprint('nowhere')").stdout == b""
    guest.run("class Bad:\n    def flush(self): raise ValueError\nsys.stdout = Bad()")
    assert guest.check("sys.stdout = sys.__stdout__\nprint('back')").stdout == b"back\n"


@pytest.mark.parametrize(
    "code",
    [
        "sys.stdout = None",
        "sys.stdout.close()",
        "sys.stdout.detach()",
        "sys.stdout = io.StringIO()",
        "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, 'utf-8')",
        "os.close(1)",
        "os.closerange(0, 256)",
        "os.dup2(os.open('/dev/null', os.O_WRONLY), 1)",
        "del sys.stdout",
    ],
)
def test_output_works_again_after_a_run_closed_its_streams(guest: Guest, code: str) -> None:
    guest.run("import io, os, sys\n" + code)
    outcome = guest.check("print('again', flush=True)\nos.write(1, b'by number')\nNone")
    assert outcome.stdout == b"again\nby number"
    assert guest.check("print('err', file=sys.stderr)").stderr == b"err\n"
    # Files that code opens then do not get the numbers of the streams.
    assert guest.check("with open('/tmp/x', 'w') as file: n = file.fileno()\nprint(n > 2)").stdout == b"True\n"


def test_redirected_stdout_works(guest: Guest) -> None:
    code = "import contextlib, io\nout = io.StringIO()\nwith contextlib.redirect_stdout(out): print('inside')\n"
    assert guest.check(code + "print(repr(out.getvalue()))").stdout == b"'inside\\n'\n"


def test_forgotten_await_of_the_last_expression_is_explained_once(guest: Guest) -> None:
    guest.run("async def work(): return 3")
    shown = guest.check("work()").result
    assert shown == "coroutine work(...), and nothing has run yet: write await work(...)"
    outcome = guest.check("1")
    assert (outcome.stdout, outcome.stderr) == (b"", b"")
    assert guest.check("later = work()\nlater").result == shown
    assert guest.check("await later").result == "3"
    # Python's own warning names the line of the cell.
    assert b"<cell" in guest.check("work()\nNone").stderr
