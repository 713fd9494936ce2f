"""Several clients over HTTP, by the official Python MCP SDK; the token is in TOKEN.

    http_job.py [--engine unix://SOCKET] --url URL --pid PID

In the eras with MCP sessions each client has Python sessions of its own, which end with it; in the newest they share.
"""

from __future__ import annotations

import argparse
import asyncio
from contextlib import AsyncExitStack, suppress
import os
import sys
import time
from typing import Any

import httpx2
from main_job import Report, containers, run

from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def connect(stack: AsyncExitStack, url: str, mode: str, **headers: str) -> Client:
    authorization = {"Authorization": f"Bearer {os.environ['TOKEN']}", **headers}
    http_client = await stack.enter_async_context(httpx2.AsyncClient(headers=authorization, timeout=60))
    transport = streamable_http_client(url, http_client=http_client)
    return await stack.enter_async_context(Client(transport, mode=mode, read_timeout_seconds=60))


async def refused(url: str, **headers: str) -> bool:
    """Whether a client with these headers gets nowhere."""
    try:
        async with AsyncExitStack() as stack:
            client = await connect(stack, url, "legacy", **headers)
            await client.list_tools()
    except Exception:
        return True
    return False


async def job(options: argparse.Namespace, report: Report) -> None:
    url = options.url
    async with AsyncExitStack() as stack:
        first = await connect(stack, url, "legacy")
        print(f"protocol {first.protocol_version}")
        tools = (await first.list_tools()).tools
        report.check("the tool is offered", [tool.name for tool in tools] == ["run_python"], tools)
        await run(first, "x = 1")
        async with AsyncExitStack() as inner:
            second = await connect(inner, url, "legacy")
            answer, _ = await run(second, "x = 2\nprint('x', x)")
            report.check("a second client is served", answer.get("stdout") == "x 2\n", answer)
            answer, _ = await run(first, "print(x)")
            report.check("each has variables of its own", answer.get("stdout") == "1\n", answer)
            answer, _ = await run(second, "while True: pass", yield_after=0)
            report.check("a run is left running", answer.get("status") == "running", answer)
            both = len(containers(options.engine, options.pid)) if options.engine else 0
        # The second one has closed its MCP session.
        deadline = time.monotonic() + 10
        while options.engine and len(containers(options.engine, options.pid)) >= both and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        if options.engine:
            left = len(containers(options.engine, options.pid))
            report.check("what a client left running ends with it", left < both, (both, left))
        answer, _ = await run(first, "print(x)")
        report.check("and the other one goes on", answer.get("stdout") == "1\n", answer)
        seen: list[Any] = []

        async def progress(done: float, total: float | None, message: str | None) -> None:
            seen.append((done, total, message))

        code = "import time\ntime.sleep(6)\nprint('slept')"
        result = await first.call_tool("run_python", {"code": code}, progress_callback=progress)
        answer = result.structured_content or {}
        report.check("a client is told of progress", bool(seen) and answer.get("stdout") == "slept\n", (seen, answer))

    async with AsyncExitStack() as stack:
        first, second = [await connect(stack, url, "auto") for _ in range(2)]
        print(f"protocol {first.protocol_version}")
        await run(first, "y = 1")
        answer, _ = await run(second, "print(y)")
        shared = answer.get("stdout") == "1\n"
        report.check("without MCP sessions clients share", shared == (first.protocol_version >= "2026"), answer)
        answer, _ = await run(second, "print('y' in globals())", session="own")
        report.check("and tell theirs apart by name", answer.get("stdout") == "False\n", answer)
        call = asyncio.create_task(first.call_tool("run_python", {"code": "open('/tmp/begun', 'w')\nwhile True: pass"}))
        # It is under way once a call behind it has to wait.
        behind, _ = await run(second, "1", yield_after=0.5)
        while behind.get("status") == "success":
            behind, _ = await run(second, "1", yield_after=0.5)
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
        answer, _ = await run(second, "print(y)", timeout=20)
        report.check("a call that was given up is interrupted", answer.get("stdout") == "1\n", answer)

    report.check("no token, no service", await refused(url, Authorization="Bearer nonsense-nonsense"))
    report.check("web pages are kept out", await refused(url, Origin="https://example.org"))
    report.check("and other names of this machine", await refused(url, Host="example.org"))


async def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine")
    parser.add_argument("--url", required=True)
    parser.add_argument("--pid", type=int, required=True)
    options = parser.parse_args()
    report = Report()
    await job(options, report)
    print(f"\n{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
