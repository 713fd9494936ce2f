"""Servers that ask the user and the client's model, through the bridge, with the official Python MCP SDK as the client.

    asking_job.py --stub STUB -- BRIDGE ARGUMENTS...

Both eras of the protocol on both sides: a server that sends requests and one that answers with its questions, each
behind a client of either kind, which declared to answer or did not. The exit status is 0 if all is well.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from pathlib import Path
import sys
import tempfile
from typing import Any

from mcp_types import CreateMessageResult, ElicitResult, TextContent

from mcp import Client, StdioServerParameters

FORM = {
    "message": "Delete 3 files?",
    "requestedSchema": {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]},
}
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "Name a colour"}}], "maxTokens": 5}
ANSWER = {"result": {"content": [], "structuredContent": "$answer"}}
SCENARIOS: dict[str, dict[str, Any]] = {
    "old": {
        "tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("confirm", "sample")],
        "calls": {
            "confirm": [[{"ask": ["elicitation/create", FORM]}, ANSWER]],
            "sample": [[{"ask": ["sampling/createMessage", SAMPLE]}, ANSWER]],
        },
    },
    "new": {
        "modern": True,
        "tools": [{"name": "confirm", "inputSchema": {"type": "object"}}],
        "calls": {
            "confirm": [
                [
                    {
                        "result": {
                            "resultType": "input_required",
                            "inputRequests": {"form": {"method": "elicitation/create", "params": FORM}},
                            "requestState": "s",
                        }
                    }
                ],
                [{"result": {"content": [{"type": "text", "text": "went on"}]}}],
            ]
        },
    },
}


class User:
    """Answers as told and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.action: Any = "accept"
        self.thinks = 0.0

    async def elicit(self, _: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        await asyncio.sleep(self.thinks)
        return ElicitResult(action=self.action, content={"sure": True} if self.action == "accept" else None)

    async def sample(self, _: Any, params: Any) -> CreateMessageResult:
        self.asked.append(f"{params.system_prompt} {params.messages[0].content.text}")
        return CreateMessageResult(role="assistant", content=TextContent(type="text", text="blue"), model="painter")


failed = 0


def check(what: str, holds: bool, seen: object) -> None:
    global failed
    failed += not holds
    print(f"  {'ok  ' if holds else 'FAIL'}  {what}" + ("" if holds else f": {seen}"), flush=True)


async def run(client: Client, code: str, **arguments: Any) -> str:
    result = await client.call_tool("run_python", {"code": code, **arguments})
    return "\n".join(block.text for block in result.content if block.type == "text")


async def with_answers(client: Client, user: User) -> None:
    text = await run(client, "print(await mcp_old.confirm())", servers=["old", "new", "shop"])
    check("an answer reaches the server", text == "{'action': 'accept', 'content': {'sure': True}}\n", text)
    expected = ['MCP server "old" (tool confirm) asks:\n\nDelete 3 files?']
    check("the user sees which server asks", user.asked == expected, user.asked)
    for user.action in ("decline", "cancel"):
        text = await run(client, "print(await mcp_old.confirm())")
        check(f"so does {user.action}", text == f"{{'action': '{user.action}'}}\n", text)
    user.action = "accept"

    text = await run(client, "print(await mcp_new.confirm())")
    check("a question within a result is answered", text == "went on\n", text)
    check("and says who asks, too", user.asked[-1].startswith('MCP server "new" (tool confirm) asks'), user.asked)

    text = await run(client, "print(await mcp_shop.confirm(question='Buy?'))")
    check("a server of the SDK, over HTTP, is answered", text == "accept True\n", text)
    check("and named", user.asked[-1] == 'MCP server "shop" (tool confirm) asks:\n\nBuy?', user.asked)

    text = await run(client, "print((await mcp_old.sample())['content'])")
    check("sampling reaches the client's model", text == "{'type': 'text', 'text': 'blue'}\n", text)
    check("which is told who asks", '(MCP server "old" (tool sample) sends' in user.asked[-1], user.asked)

    user.asked.clear()
    code = "import asyncio\nprint(len(await asyncio.gather(mcp_old.confirm(), mcp_old.confirm(), mcp_old.confirm())))"
    text = await run(client, code)
    check("questions at the same time are all answered", text == "3\n" and len(user.asked) == 3, (text, user.asked))

    user.thinks = 1.5
    text = await run(client, "print((await mcp_old.confirm())['action'])", timeout=1)
    check("the time that the user takes is none of the run's", text == "accept\n", text)


async def without_answers(client: Client) -> None:
    text = await run(client, "print(await mcp_old.confirm())", servers=["old", "new"])
    check("a server that asks in vain is told so", "-32601" in text and "nobody was asked" in text, text)
    text = await run(client, "print(await mcp_old.sample())")
    check("of sampling too", "-32601" in text and "declared no sampling" in text, text)
    text = await run(client, "await mcp_new.confirm()")
    check("and the code is, where the question was a result", "this client does not support" in text, text)


async def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stub", required=True)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    command, *arguments = options.command
    servers: dict[str, Any] = {
        name: {"command": options.stub, "args": [json.dumps(what)]} for name, what in SCENARIOS.items()
    }
    script = Path(__file__).with_name("http_server.py")
    shop = await asyncio.create_subprocess_exec(
        sys.executable, "-B", script, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        assert shop.stdout
        line = (await shop.stdout.readline()).decode()
        servers["shop"] = {"type": "http", "url": line.removeprefix("listening on ").strip()}
        await both_eras(command, arguments, servers)
    finally:
        shop.kill()
        await shop.wait()
    print(f"\n{failed} failed")
    return 1 if failed else 0


async def both_eras(command: str, arguments: list[str], servers: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory(prefix="mcb-asking.") as name:
        os.chmod(name, 0o755)
        file = Path(name, "servers.json")
        file.write_text(json.dumps({"mcpServers": servers}))
        environment = {**os.environ, "MCP_SERVERS_CONFIG": str(file)}
        server = StdioServerParameters(command=command, args=arguments, env=environment)
        for mode in ("auto", "legacy"):
            user = User()
            async with Client(
                server,
                mode=mode,
                read_timeout_seconds=120,
                elicitation_callback=user.elicit,
                sampling_callback=user.sample,
            ) as client:
                print(f"protocol {client.protocol_version}, a client that answers")
                await with_answers(client, user)
            async with Client(server, mode=mode, read_timeout_seconds=120) as client:
                print(f"protocol {client.protocol_version}, a client that does not")
                await without_answers(client)


sys.exit(asyncio.run(main()))
