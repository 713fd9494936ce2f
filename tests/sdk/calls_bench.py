"""Calls of a tool by the official Python SDK, straight to the server: `calls_bench.py CALLS -- SERVER ARGUMENTS...`.

Prints as JSON what `tests/bench/calls.rs` has the bridge's guest print of the same calls.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

from mcp import Client, StdioServerParameters


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("calls", type=int)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    command, *arguments = options.command
    server = StdioServerParameters(command=command, args=arguments)
    async with Client(server, read_timeout_seconds=60) as client:
        # As the bridge does, to know the tools.
        await client.list_tools()

        async def one() -> float:
            begun = time.perf_counter()
            await client.call_tool("echo", {"n": 1})
            return time.perf_counter() - begun

        async def all_at_once(tool: str, count: int) -> float:
            begun = time.perf_counter()
            await asyncio.gather(*(client.call_tool(tool, {"n": n}) for n in range(count)))
            return time.perf_counter() - begun

        for _ in range(50):
            await one()
        single = [await one() for _ in range(options.calls)]
        told = {"single": single, "many": await all_at_once("echo", 1000), "slow": await all_at_once("slow", 50)}
    print(json.dumps(told))


asyncio.run(main())
