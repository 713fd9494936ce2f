"""Runs that outlive their call, by the official Python MCP SDK over stdio: by argument in both eras, and as tasks.

    long_runs_job.py [--engine unix://SOCKET] -- BRIDGE ARGUMENTS...

The SDK has no tasks of its own, but a client may add the extension: here is the smallest one, which polls.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
import os
import sys
import time
from typing import Any, Literal

from main_job import Report, child_named, containers, run
from mcp_types import CallToolResult, Request, RequestParams, Result
from pydantic import ConfigDict, Field

from mcp import Client, StdioServerParameters
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim

COUNT = "import time\nfor n in range(6):\n    print(n, flush=True)\n    time.sleep(0.5)\nn"
COUNTED = "0\n1\n2\n3\n4\n5\n"
LONG = COUNT.replace("0.5", "0.9")


class CreatedTask(Result):
    """The answer that is a task."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = Field(alias="resultType")
    task_id: str = Field(alias="taskId")
    poll_interval_ms: int = Field(alias="pollIntervalMs")


class TaskParams(RequestParams):
    """Which task is meant."""

    task_id: str = Field(alias="taskId")


class TaskRequest(Request[TaskParams, str]):
    """`tasks/get` or `tasks/cancel`."""

    name_param = "taskId"


class TaskState(Result):
    """How a task stands."""

    model_config = ConfigDict(extra="allow")
    status: str = ""
    result: dict[str, Any] | None = None


class Tasks(ClientExtension):
    """Polls tasks to their end; cancels them first where it is told to."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self) -> None:
        self.statuses: list[str] = []
        self.cancels = False

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self.resolve)]

    async def resolve(self, created: CreatedTask, context: ClaimContext) -> CallToolResult:
        params = TaskParams(taskId=created.task_id)
        if self.cancels:
            await context.session.send_request(TaskRequest(method="tasks/cancel", params=params), TaskState)
        while True:
            state = await context.session.send_request(TaskRequest(method="tasks/get", params=params), TaskState)
            self.statuses.append(state.status)
            if state.status == "completed":
                return CallToolResult.model_validate(state.result)
            if state.status != "working":
                return CallToolResult(content=[], is_error=True)
            await asyncio.sleep(created.poll_interval_ms / 1000)


async def read_on(client: Client, report: Report) -> None:
    """Leaves a run running and comes back for it."""
    answer, text = await run(client, COUNT, yield_after=0.7)
    name, so_far = answer.get("run", ""), answer.get("stdout", "")
    left = answer.get("status") == "running" and f'run="{name}"' in text
    report.check("a call is answered while its run goes on", left and COUNTED.startswith(so_far), answer)
    readings = 0
    while answer.get("status") == "running" and readings < 50:
        result = await client.call_tool("run_python", {"run": name, "yield_after": 0.8})
        answer = result.structured_content or {}
        so_far += answer.get("stdout", "")
        readings += 1
    whole = so_far == COUNTED and answer.get("status") == "success" and answer.get("result") == "5"
    report.check("the next calls read on to the end", whole and readings > 1, (so_far, answer))
    result = await client.call_tool("run_python", {"run": name})
    again = (result.structured_content or {}).get("stdout")
    report.check("and an answer that was lost can be had again", again == COUNTED, again)

    answer, _ = await run(client, "while True: pass", yield_after=0)
    result = await client.call_tool("run_python", {"run": answer.get("run", ""), "cancel": True})
    answer = result.structured_content or {}
    ended = answer.get("status") == "cancelled" and answer.get("state") == "kept"
    report.check("a run is cancelled by its name", ended, answer)


async def keep_tasks(client: Client, tasks: Tasks, report: Report) -> None:
    """Has long runs made into tasks."""
    start = time.monotonic()
    answer, _ = await run(client, LONG)
    took = time.monotonic() - start
    polled = "working" in tasks.statuses and tasks.statuses[-1] == "completed"
    report.check("a long run becomes a task and is polled to its end", polled, (tasks.statuses, took))
    report.check("its result is that of the call", answer.get("stdout") == COUNTED, answer)
    tasks.statuses.clear()
    answer, _ = await run(client, "print(n)")
    report.check("a short one is answered at once", answer.get("stdout") == "5\n" and not tasks.statuses, answer)
    tasks.cancels = True
    await run(client, "while True: pass")
    report.check("a task is cancelled", tasks.statuses[-1:] == ["cancelled"], tasks.statuses)
    answer, _ = await run(client, "print(n)")
    report.check("and variables are kept", answer.get("stdout") == "5\n", answer)


async def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    command, *arguments = options.command
    server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    report = Report()
    owners: list[int | None] = []
    for mode in ("auto", "legacy"):
        async with Client(server, mode=mode, read_timeout_seconds=300) as client:
            print(f"protocol {client.protocol_version}")
            owners.append(child_named("mcp-code-bridge"))
            await read_on(client, report)
    tasks = Tasks()
    async with Client(server, extensions=[tasks], read_timeout_seconds=300) as client:
        owners.append(child_named("mcp-code-bridge"))
        await keep_tasks(client, tasks, report)
    print()
    for owner in owners if options.engine else []:
        deadline = time.monotonic() + 5
        while (found := containers(options.engine, owner)) and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        report.check("no container is left", owner is not None and not found, found)
    print(f"\n{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
