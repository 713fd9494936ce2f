"""Which thread reads frames: runs that end just as the reader thread takes over, and closed
descriptors."""

from contextlib import suppress

import pytest

from guest import Guest
from host import Host, server, text, tool

# Runs for about the time after which the reader thread takes over.
BUSY_WAIT = "import time\nend = time.perf_counter() + {seconds}\nwhile time.perf_counter() < end: pass"
CLOSE_TIMERS = """import os
for number in os.listdir('/proc/self/fd'):
    try:
        if 'timerfd' in os.readlink(f'/proc/self/fd/{number}'):
            os.close(int(number))
    except OSError:
        pass
"""


def test_run_that_ends_while_the_reader_takes_over_loses_nothing(guest: Guest) -> None:
    for number in range(400):
        seconds = 0.0019 + number % 20 * 0.00001
        assert guest.check(f"{BUSY_WAIT.format(seconds=seconds)}\n{number}").result == str(number)
    guest.execute("print('go')\nwhile True: pass")
    guest.until_output(b"go")
    guest.interrupt()
    assert guest.collect().status == "interrupted"


def test_calls_are_answered_in_runs_of_any_length(host: Host) -> None:
    host.handlers["call_tool"] = lambda _params: text("yes")
    host.check("n = 0", [server("s", tool("echo"))])
    for number in range(200):
        code = f"{BUSY_WAIT.format(seconds=number % 20 * 0.0002)}\nawait mcp_s.echo()"
        assert host.check(code).result is not None


def test_runs_sent_at_once_are_all_answered(guest: Guest) -> None:
    first = guest.last + 1
    for number in range(100):
        guest.execute(f"import time\ntime.sleep({number % 3 * 0.002})")
    answered: list[int] = []
    while len(answered) < 100:
        frame = guest.next()
        if frame["type"] == "execution_done":
            answered.append(frame["id"])
    assert answered == list(range(first, first + 100))


@pytest.mark.parametrize("goes_on", ["", "while True: pass"])
def test_guest_without_its_timer_ends(guest: Guest, goes_on: str) -> None:
    guest.execute(f"{CLOSE_TIMERS}print('go', flush=True)\n{goes_on}")
    # If the reader thread notices only now that its timer is gone, the guest ends by itself.
    if any("go" in frame.get("data", "") for frame in guest.frames()):
        with suppress(BrokenPipeError):
            if goes_on:
                guest.interrupt()
            guest.execute("1")
    _, status = guest.end()
    assert status == 71
