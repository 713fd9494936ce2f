"""A small MCP client for machines that have nothing but Python: `client.py ADDRESS CODE [SERVER...]` runs CODE with
`run_python` and prints the answer's text; exit status 1 where it is an error.

ADDRESS is `unix:PATH` for a socket that speaks MCP as on standard input and output, an http address (the token in
MCP_TOKEN), or else a command.
"""

from collections.abc import Iterator
import json
import os
import shlex
import socket
import subprocess
import sys
from typing import IO, Any
import urllib.request

# Programs run many times slower in an emulated machine, and the first call loads the image.
SECONDS = 900


class Stream:
    """Messages as lines."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes]) -> None:
        self.reader, self.writer = reader, writer

    def send(self, message: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self.writer.write(json.dumps(message).encode() + b"\n")
        self.writer.flush()
        if "id" in message:
            for line in self.reader:
                yield json.loads(line)


class Http:
    """Messages as requests; answers as JSON or as events."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if token := os.environ.get("MCP_TOKEN"):
            self.headers["Authorization"] = f"Bearer {token}"

    def send(self, message: dict[str, Any]) -> Iterator[dict[str, Any]]:
        request = urllib.request.Request(self.address, json.dumps(message).encode(), self.headers)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            if session := answer.headers.get("Mcp-Session-Id"):
                self.headers["Mcp-Session-Id"] = session
            if answer.headers.get_content_type() == "text/event-stream":
                for line in answer:
                    if line.startswith(b"data:") and line[5:].strip():
                        yield json.loads(line[5:])
            elif body := answer.read().strip():
                yield json.loads(body)


def connect(address: str) -> Stream | Http:
    if address.startswith("unix:"):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(SECONDS)
        connection.connect(address.removeprefix("unix:"))
        return Stream(connection.makefile("rb"), connection.makefile("wb"))
    if address.startswith("http:"):
        return Http(address)
    child = subprocess.Popen(shlex.split(address), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin and child.stdout
    return Stream(child.stdout, child.stdin)


def request(connection: Stream | Http, number: int, method: str, params: dict[str, Any]) -> Any:
    for message in connection.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params}):
        if message.get("id") == number:
            if "result" not in message:
                sys.exit(f"{method}: {message.get('error')}")
            return message["result"]
    sys.exit(f"{method}: the connection ended without an answer")


def main(address: str, code: str, *servers: str) -> int:
    connection = connect(address)
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "client.py", "version": "1"}}
    request(connection, 1, "initialize", client)
    for _ in connection.send({"jsonrpc": "2.0", "method": "notifications/initialized"}):
        pass
    arguments = {"code": code, "timeout": 120, **({"servers": list(servers)} if servers else {})}
    result = request(connection, 2, "tools/call", {"name": "run_python", "arguments": arguments})
    print("\n".join(part.get("text", "") for part in result["content"]))
    return 1 if result.get("isError") else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
