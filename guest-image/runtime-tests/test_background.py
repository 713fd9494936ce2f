"""A loop is running in every cell, as in Jupyter, and its tasks go on between cells."""

import time

from guest import Guest
from host import Host
from servers import silent

TICKS = """
import asyncio
ticks = []
async def tick():
    for n in range(5):
        await asyncio.sleep(0.01)
        ticks.append(n)
    return 'done'
"""


def test_first_cell_without_await_finds_a_running_loop(guest: Guest) -> None:
    outcome = guest.check(TICKS + "task = asyncio.create_task(tick())\nasyncio.get_running_loop().is_closed()")
    assert outcome.result == "False"
    assert guest.check("await task").result == "'done'"


def test_tasks_go_on_between_cells(guest: Guest) -> None:
    guest.check(TICKS + "task = asyncio.create_task(tick())")
    deadline = time.monotonic() + 20
    while guest.check("task.done()").result != "True" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert guest.check("ticks, task.result()").result == "([0, 1, 2, 3, 4], 'done')"
    assert guest.check("await asyncio.sleep(0, 1)").result == "1"


def test_task_that_blocks_between_cells_is_interrupted(guest: Guest) -> None:
    guest.check("import asyncio, time\nasync def block():\n    time.sleep(60)\ntask = asyncio.create_task(block())")
    time.sleep(0.5)
    guest.execute("'not run'")
    time.sleep(0.5)
    guest.interrupt()
    assert guest.collect().status == "interrupted"
    assert guest.check("1").result == "1"


def test_task_that_exits_between_cells_ends_nothing_else(guest: Guest) -> None:
    guest.check("import asyncio, sys\nasync def leave():\n    sys.exit(3)\ntask = asyncio.create_task(leave())\nkept = 1")
    time.sleep(0.1)
    assert guest.check("kept").result == "1"
    assert guest.check("await asyncio.sleep(0, 2)").result == "2"


def test_call_of_a_task_between_cells_waits_for_a_cell_that_awaits(echo: Host) -> None:
    echo.check("task = asyncio.create_task(mcp_s.echo(n=1))")
    time.sleep(0.1)
    echo.check("1")
    assert echo.requests == []
    assert echo.value("await task") == "{'n': 1}"


def test_asyncio_run_works_in_a_cell_that_awaits(guest: Guest) -> None:
    code = "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 7\n"
    assert guest.check(code + "await f(), asyncio.run(f()), await f()").result == "(7, 7, 7)"
    assert guest.check("await asyncio.sleep(0)\ndef g(): return asyncio.run(f())\ng()").result == "7"
    assert guest.check("await asyncio.sleep(0)\nwith asyncio.Runner() as runner:\n    r = runner.run(f())\nr, await f()").result == "(7, 7)"
    assert guest.check("await asyncio.sleep(0)\nasyncio.new_event_loop().run_until_complete(f())").result == "7"
    assert guest.check("asyncio.get_event_loop().run_until_complete(f())").result == "7"
    assert guest.check("asyncio.run(f(), debug=True)\nawait f()").result == "7"


def test_tools_can_be_called_in_asyncio_run(echo: Host) -> None:
    assert echo.value("await asyncio.sleep(0)\nasyncio.run(mcp_s.echo(n=1)), await mcp_s.echo(n=2)") == "({'n': 1}, {'n': 2})"


def test_interrupt_ends_asyncio_run_in_a_cell_that_awaits(echo: Host) -> None:
    echo.handlers["call_tool"] = silent
    echo.execute("await asyncio.sleep(0)\nasyncio.run(mcp_s.echo(n=1))")
    echo.until_requests(1)
    echo.guest.interrupt()
    assert echo.collect().status == "interrupted"
    echo.handlers["call_tool"] = echo.echo
    assert echo.value("await mcp_s.echo(n=2)") == "{'n': 2}"
