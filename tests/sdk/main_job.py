"""The main job, done by the official Python MCP SDK over stdio.

    main_job.py [--mode auto|legacy] [--engine unix://SOCKET] -- BRIDGE ARGUMENTS...

Keeps a variable over calls, gets an exception, a time limit with state kept and with state lost, 5 MB of output byte
for byte, output of a child process and of C code, and finds no container afterwards. Prints what happened; the closing
line counts, the exit status is 0 if all is well.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import http.client
import json
import os
import socket
import sys
import time
from typing import Any
import urllib.parse

from mcp import Client, StdioServerParameters


class Report:
    """What was checked, told as it happens."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0

    def check(self, what: str, holds: bool, seen: object = "") -> None:
        self.passed += holds
        self.failed += not holds
        print(f"  {'ok  ' if holds else 'FAIL'}  {what}" + ("" if holds else f": {seen}"), flush=True)


def shorten(text: str, limit: int = 400) -> str:
    return (
        text if len(text) <= limit else f"{text[: limit // 2]} ... {len(text):,} characters ... {text[-limit // 4 :]}"
    )


async def run(client: Client, code: str, **arguments: Any) -> tuple[dict[str, Any], str]:
    """Runs a cell and shows it with its answer, as a person would see it."""
    start = time.monotonic()
    result = await client.call_tool("run_python", {"code": code, **arguments})
    took = time.monotonic() - start
    text = "\n".join(block.text for block in result.content if block.type == "text")
    notes = "".join(f", {name}={value}" for name, value in arguments.items())
    print(f"\n>>> run_python ({took * 1000:.0f} ms{notes})")
    print("\n".join("    " + line for line in shorten(code).splitlines()))
    print("\n".join("  | " + line for line in shorten(text).splitlines()), flush=True)
    return result.structured_content or {}, text


class EngineConnection(http.client.HTTPConnection):
    """HTTP to an engine's unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("engine", timeout=10)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(10)
        self.sock.connect(self.path)


def containers(engine: str, owner: int | None) -> list[str]:
    """IDs of the containers, in any state, that a bridge owns (or any bridge)."""
    label = "io.mcp-code-bridge.instance" if owner is None else f"io.mcp-code-bridge.owner-pid={owner}"
    filters = urllib.parse.quote(json.dumps({"label": [label]}))
    connection = EngineConnection(engine.removeprefix("unix://"))
    connection.request("GET", f"/v1.40/containers/json?all=true&filters={filters}")
    answer = json.loads(connection.getresponse().read())
    return [container["Id"] for container in answer]


def child_named(name: str) -> int | None:
    """The process ID of the bridge that the SDK has started for us."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(") ")[2].split()
            with open(f"/proc/{pid}/cmdline") as file:
                command = file.read().split("\0")
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and any(name in part for part in command):
            return int(pid)
    return None


DRAWING = """
import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def png(width, height, pixel):
    rows = b"".join(b"\\0" + b"".join(bytes(pixel(x, y)) for x in range(width)) for y in range(height))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\\x89PNG\\r\\n\\x1a\\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
drawing = png(64, 32, lambda x, y: (4 * x, 8 * y, 128))
"""


async def answers(client: Client, report: Report) -> None:
    """Long output, a picture, a file."""
    _, text = await run(client, "for n in range(100_000): print('row', n, 'ERROR' if n == 77_777 else 'ok')")
    report.check(
        "a long output is cut to head and tail, and says how to get the rest",
        len(text) < 40_000 and "row 0 ok" in text and "row 99999 ok" in text and "runtime.last_output.lines(" in text,
        shorten(text),
    )
    _, text = await run(client, "runtime.last_output.grep('ERROR')")
    report.check("and stays in the sandbox", text == "77777: row 77777 ERROR", text)

    result = await client.call_tool("run_python", {"code": f"{DRAWING}\ndrawing"})
    images = [block for block in result.content if block.type == "image"]
    data = base64.b64decode(images[0].data) if images else b""
    is_drawing = data.startswith(b"\x89PNG\r\n\x1a\n") and data[16:24] == bytes((0, 0, 0, 64, 0, 0, 0, 32))
    report.check(
        "a picture made of bytes arrives as an image",
        len(images) == 1 and images[0].mime_type == "image/png" and is_drawing,
        result,
    )

    code = "import csv\nwith open('out/rows & more.csv', 'w') as f: csv.writer(f).writerows([['a', 'b'], [1, 'é']])"
    result = await client.call_tool("run_python", {"code": code})
    links = [block for block in result.content if block.type == "resource_link"]
    report.check("a file is linked", len(links) == 1 and links[0].mime_type == "text/csv", result)
    if links:
        contents = (await client.read_resource(links[0].uri)).contents
        report.check("and can be read", getattr(contents[0], "text", None) == "a,b\r\n1,é\r\n", contents)
    listed = {str(resource.uri) for resource in (await client.list_resources()).resources}
    report.check("and is listed", bool(links) and str(links[0].uri) in listed, listed)


async def main_job(client: Client, report: Report) -> None:
    tools = (await client.list_tools()).tools
    report.check("one tool is offered, run_python", [tool.name for tool in tools] == ["run_python"], tools)

    answer, _ = await run(client, "import math\nradius = 3\nprint('area', round(math.pi * radius**2, 2))")
    report.check("code runs", answer.get("stdout") == "area 28.27\n", answer)
    answer, text = await run(client, "radius * 2")
    report.check(
        "a variable is kept, a last expression is shown", answer.get("result") == "6" and text.strip() == "6", answer
    )

    answer, text = await run(
        client, "items = [{'name': 'tea', 'price': 3}, {'name': 'cake'}]\ntotal = sum(item['price'] for item in items)"
    )
    report.check(
        "an exception shows the user's own lines",
        answer.get("status") == "error" and "KeyError: 'price'" in text and "line 2" in text,
        answer,
    )
    answer, _ = await run(client, "print(len(items))")
    report.check("and keeps the variables", answer.get("stdout") == "2\n", answer)

    answer, _ = await run(client, "counter = 0\nwhile True:\n    counter += 1", timeout=2)
    report.check("a time limit interrupts", answer.get("status") == "timeout" and answer.get("state") == "kept", answer)
    answer, _ = await run(client, "counter > 1000 and radius")
    report.check("and keeps the variables", answer.get("result") == "3", answer)

    answer, _ = await run(client, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    report.check(
        "a killed guest is an error, its state lost",
        answer.get("status") == "error" and answer.get("state") == "lost",
        answer,
    )
    answer, text = await run(client, "'radius' in globals()")
    report.check(
        "the next call says that it starts afresh", answer.get("result") == "False" and "fresh session" in text, answer
    )

    answer, _ = await run(
        client,
        "line = ''.join(chr(33 + n % 90) for n in range(99)) + '\\n'\nimport sys\n_ = sys.stdout.write(line * 50_000)",
        max_output_tokens=2_000_000,
    )
    expected = ("".join(chr(33 + n % 90) for n in range(99)) + "\n") * 50_000
    found = answer.get("stdout", "")
    same = hashlib.sha256(found.encode()).digest() == hashlib.sha256(expected.encode()).digest()
    report.check("5 MB of output arrive byte for byte", same, f"{len(found)} characters")

    await answers(client, report)

    code = (
        "import ctypes, subprocess\nprint('from Python', flush=True)\n"
        "libc = ctypes.CDLL(None)\nlibc.puts(b'from C')\nlibc.fflush(None)\n"
        "_ = subprocess.run([sys.executable, '-c', 'print(\"from a child process\")'])"
    )
    answer, _ = await run(client, code)
    report.check(
        "output of C code and of a child process",
        answer.get("stdout") == "from Python\nfrom C\nfrom a child process\n",
        answer,
    )

    answer, _ = await run(
        client,
        "import socket\ntry:\n    socket.create_connection(('192.0.2.1', 80), 1)\n"
        "except OSError as error:\n    print(type(error).__name__)",
    )
    refused = answer.get("stdout", "").strip() in ("PermissionError", "OSError")
    report.check("the sandbox has no network", refused, answer)


async def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", default="auto", choices=["auto", "legacy"])
    parser.add_argument("--engine")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    command, *arguments = options.command
    environment = dict(os.environ)
    report = Report()
    owner = None
    server = StdioServerParameters(command=command, args=arguments, env=environment)
    async with Client(server, mode=options.mode, read_timeout_seconds=300) as client:
        name = client.server_info.name if client.server_info else "the bridge"
        print(f"connected to {name}, protocol {client.protocol_version}")
        owner = child_named("mcp-code-bridge")
        await main_job(client, report)
        if options.engine:
            report.check("it runs in a container", len(containers(options.engine, owner)) > 0)
    print()
    if options.engine:
        deadline = time.monotonic() + 5
        while (left := containers(options.engine, owner)) and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        report.check("no container is left", not left, left)
    print(f"\n{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
