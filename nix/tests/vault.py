"""An MCP server of the tests: its one tool tells the SHA-256 of a secret that it got as a variable, so that the secret
need not show."""

import hashlib
import json
import os
import sys

for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    digest = hashlib.sha256(os.environ["VAULT_KEY"].encode()).hexdigest()
    results = {
        "initialize": {
            "protocolVersion": request.get("params", {}).get("protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "vault", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "digest", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": digest}]},
    }
    answer = {"jsonrpc": "2.0", "id": request["id"]}
    if request["method"] in results:
        answer["result"] = results[request["method"]]
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
