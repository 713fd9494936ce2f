"""One program that uses five real MCP servers, and its cost in tokens, done by the official Python MCP SDK over stdio.

    servers_job.py --servers FOLDER --counter COUNT_TOKENS -- BRIDGE ARGUMENTS...

Seven servers are defined (tests/setup/servers.sh installs them). A first call finds out which tools there are, a second
one does the work. Then the account: the tool lists of the seven, as each would have gone to the model, beside the
bridge's own tool list, the calls and their answers, counted by a real tokenizer. The exit status is 0 if all is well.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from pathlib import Path
import subprocess
import sys
import tempfile
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

USED = ["time", "git", "sqlite", "filesystem", "memory"]

FIND = """for words in ("convert time", "git log", "sqlite create table", "write query", "read query", "read text"):
    print((await search_tool_docs(words, limit=1))[0])
print(await query_tool_docs("memory", tool="create_entities", detail="full"))
"""

WORK = """import ast, asyncio, json, re
rates, log, noon = await asyncio.gather(
    mcp_filesystem.read_text_file(path="FILES/rates.json"),
    mcp_git.git_log(repo_path="REPOSITORY"),
    mcp_time.convert_time(source_timezone="Asia/Tokyo", time="12:00", target_timezone="Asia/Kolkata"),
)
rates = json.loads(rates["content"] if isinstance(rates, dict) else rates)
await mcp_sqlite.create_table(query="CREATE TABLE work (author TEXT, pay INTEGER)")
for author in re.findall("Author: .*?(Ada|Grace)", str(log)):
    await mcp_sqlite.write_query(query=f"INSERT INTO work VALUES ({author!r}, {rates[author]})")
text = await mcp_sqlite.read_query(query="SELECT author, SUM(pay) AS pay FROM work GROUP BY author ORDER BY pay DESC")
paid = ast.literal_eval(text)
await mcp_memory.create_entities(
    entities=[{"name": row["author"], "entityType": "author", "observations": [f"earned {row['pay']}"]} for row in paid]
)
print(*(f"{row['author']}: {row['pay']}" for row in paid), sep="\\n")
print("noon in Tokyo is", noon["target"]["datetime"][11:16], "in Kolkata")
"""
PRINTED = "Grace: 60\nAda: 40\nnoon in Tokyo is 08:30 in Kolkata\n"


def prepare(folder: Path) -> None:
    """A repository with three commits of two authors, and what each is paid."""
    (folder / "files").mkdir()
    (folder / "files/rates.json").write_text(json.dumps({"Ada": 40, "Grace": 30}))
    git = ["git", "-C", str(folder), "-c", "user.name=demo", "-c", "user.email=demo@example.org"]
    subprocess.run([*git, "init", "--quiet", "repository"], check=True)
    git[2] = str(folder / "repository")
    for author, subject in (("Ada", "Count the cakes"), ("Grace", "Price the tea"), ("Grace", "Price the cakes")):
        options = ["--quiet", "--allow-empty", "--author", f"{author} <{author}@example.org>", "--message", subject]
        subprocess.run([*git, "commit", *options], check=True)


def definitions(servers: Path, folder: Path) -> dict[str, Any]:
    python, node = servers / "python/bin", servers / "node/node_modules/.bin"
    found: dict[str, list[Any]] = {
        "time": [python / "mcp-server-time", "--local-timezone", "UTC"],
        "git": [python / "mcp-server-git", "--repository", folder / "repository"],
        "fetch": [python / "mcp-server-fetch"],
        "sqlite": [servers / "sqlite/bin/mcp-server-sqlite", "--db-path", folder / "work.db"],
        "filesystem": [node / "mcp-server-filesystem", folder / "files"],
        "memory": [node / "mcp-server-memory"],
        "everything": [node / "mcp-server-everything"],
    }
    environment = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    return {
        name: {"command": str(command), "args": [str(argument) for argument in arguments], "env": environment}
        for name, (command, *arguments) in found.items()
    }


def as_sent(tools: list[Any]) -> str:
    """What a client hands on to the model of each tool, as JSON without spaces: the least it can be."""
    listed = [{"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema} for tool in tools]
    return json.dumps(listed, separators=(",", ":"), ensure_ascii=False)


async def listed_directly(definition: dict[str, Any]) -> tuple[int, str]:
    server = StdioServerParameters(
        command=definition["command"], args=definition["args"], env={**os.environ, **definition["env"]}
    )
    # What servers say on standard error is not the demo's.
    with open(os.devnull, "w") as nowhere:
        async with Client(stdio_client(server, errlog=nowhere), read_timeout_seconds=60) as client:
            tools = (await client.list_tools()).tools
            return len(tools), as_sent(tools)


async def call(client: Client, code: str, **arguments: Any) -> tuple[str, str, bool]:
    """Runs a cell; returns what the model wrote, what it got, and whether that was a success."""
    arguments = {"code": code, **arguments}
    result = await client.call_tool("run_python", arguments)
    text = "\n".join(block.text for block in result.content if block.type == "text")
    print("\n>>> run_python " + " ".join(f"{name}={value}" for name, value in arguments.items() if name != "code"))
    print("\n".join("    " + line for line in code.splitlines()))
    print("\n".join("  | " + line for line in text.splitlines()), flush=True)
    return json.dumps(arguments, ensure_ascii=False), text, not result.is_error


async def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--servers", type=Path, required=True)
    parser.add_argument("--counter", required=True)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    command, *arguments = options.command

    with tempfile.TemporaryDirectory(prefix="mcb-demo.") as name:
        folder = Path(name)
        prepare(folder)
        defined = definitions(options.servers.resolve(), folder)
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": defined}))
        environment = {**os.environ, "MCP_SERVERS_CONFIG": str(folder / "mcp.json"), "MCP_BRIDGE_STATE_DIR": name}
        server = StdioServerParameters(command=command, args=arguments, env=environment)
        work = WORK.replace("FILES", str(folder / "files")).replace("REPOSITORY", str(folder / "repository"))
        async with Client(server, read_timeout_seconds=120) as client:
            offered = as_sent((await client.list_tools()).tools)
            found = await call(client, FIND, servers=USED, timeout=60)
            done = await call(client, work, timeout=60)
        direct = {name: await listed_directly(definition) for name, definition in defined.items()}

    texts = [offered, found[0], found[1], done[0], done[1], *(text for _, text in direct.values())]
    counter = subprocess.run([options.counter], input=json.dumps(texts), capture_output=True, text=True, check=True)
    counts = json.loads(counter.stdout)
    bridge, listed = counts[:5], counts[5:]

    print("\nTokens (cl100k_base) that the model is given or writes:")
    for (name, (tools, _)), count in zip(direct.items(), listed, strict=True):
        print(f"  {count:>7,}  {name}: {tools} tools, listed directly")
    print(f"  {sum(listed):>7,}  all tools listed directly; calls and results would come on top")
    labels = ["the bridge's tool list", "code that looks for tools", "what it found", "code that works", "its answer"]
    for label, count in zip(labels, bridge, strict=True):
        print(f"  {count:>7,}  {label}")
    share = sum(bridge) / sum(listed)
    print(f"  {sum(bridge):>7,}  with the bridge in all, both calls included: {share:.0%} of the lists alone")

    well = found[2] and done[2] and done[1].rstrip() == PRINTED.rstrip()
    print(f"\n  {'ok  ' if well else 'FAIL'}  one program used five servers and joined what they said")
    return 0 if well else 1


sys.exit(asyncio.run(main()))
