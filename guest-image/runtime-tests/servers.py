"""Servers that several test modules use, and helpers to check calls to them."""

from typing import Any

from guest import Frame
from host import Host, Silence, server, tool

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
ISSUE = tool(
    "create_issue",
    {
        "owner": STRING,
        "repo": STRING,
        "title": {"type": "string", "description": "The title"},
        "body": {"anyOf": [STRING, {"type": "null"}]},
        "labels": {"type": "array", "items": STRING},
        "state": {"enum": ["open", "closed"], "default": "open"},
    },
    ["owner", "repo", "title"],
    description="Create a new issue in a repository",
)
ODD = server(
    "git-hub",
    tool("get-user", {"id": INTEGER}, ["id"]),
    tool("a.b", {"n": INTEGER}),
    tool("1st"),
    tool("naïve"),
    tool("import", dict.fromkeys(("from", "class", "cik-A", "$top", "@type", "None", "from_"), INTEGER)),
    tool("getUser"),
    tool("call"),
    tool("prompts"),
    tool("x y\n\"'''"),
    tool("__class__"),
)
S = server("s", {"name": "echo"}, tool("typed", output_schema={"x-fastmcp-wrap-result": True, "type": "object"}))


def silent(params: Frame) -> Any:
    """Leaves a request without an answer."""
    raise Silence


def sent(host: Host, code: str) -> Frame:
    """The parameters of the one call that the code makes."""
    before = len(host.requests)
    host.check(code)
    assert len(host.requests) == before + 1
    params = host.requests[-1]["params"]
    assert isinstance(params, dict)
    return params


def refused(host: Host, code: str) -> str:
    """The error of code that must fail before anything is sent."""
    before = len(host.requests)
    outcome = host.run(code)
    assert outcome.status == "error", outcome.done
    assert len(host.requests) == before, "something was sent"
    return outcome.traceback
