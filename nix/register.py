"""Enters one MCP server in a client's own configuration file: `register.py FILE KEY NAME ENTRY`, the entry as JSON.

JSON with comments and trailing commas, or TOML, by the name of the file. Only the entry's own characters change:
comments, order and spacing of the rest stay. The result is read back and compared before it is written; a file that
cannot be edited is left alone, and said so.
"""

import json
import os
import re
import sys
import tempfile
import tomllib
from typing import Any

# Strings, comments, punctuation, and what else there is.
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|[{}\[\],:]|[^\s"{}\[\],:/]+|.', re.DOTALL)

INDENT = "  "


class CannotEdit(Exception):
    """Why a file is left as it is."""


def tokens(text: str) -> list[tuple[str, int]]:
    """Tokens and where they start, without comments."""
    found = ((match.group(), match.start()) for match in TOKEN.finditer(text))
    return [(token, at) for token, at in found if not token.isspace() and not token.startswith(("//", "/*"))]


def read_json(text: str) -> Any:
    """JSON as clients read it."""
    plain = [token for token, _ in tokens(text)]
    kept = [token for i, token in enumerate(plain) if not (token == "," and plain[i + 1 : i + 2] in (["}"], ["]"]))]
    return json.loads(" ".join(kept))


def members(text: str, opening: int) -> dict[str, tuple[int, int]]:
    """The values of the object that opens at `opening`, by key, as spans of the text."""
    spans: dict[str, tuple[int, int]] = {}
    depth, key, start, end, before = 0, None, None, 0, ""
    for token, at in tokens(text[opening:]):
        at += opening
        if depth == 1 and key is not None and start is None and token != ":":
            start = at
        if depth == 1 and token in ("}", ","):
            if key is not None and start is not None:
                spans[key] = (start, end)
            key, start = None, None
        if depth == 1 and token == ":" and start is None:
            key = json.loads(before)
        depth += (token in "{[") - (token in "}]")
        if depth == 0:
            return spans
        end, before = at + len(token), token
    raise CannotEdit("an object does not end")


def edit_json(text: str, key: str, name: str, entry: Any) -> str:
    """The text with the entry in it."""
    text = text if text.strip() else "{}\n"
    opening = next((at for token, at in tokens(text) if token == "{"), None)
    if opening is None:
        raise CannotEdit("it holds no object")
    servers = members(text, opening).get(key)
    if servers is None:
        return insert(text, opening, key, {name: entry}, 1)
    if text[servers[0]] != "{":
        raise CannotEdit(f"{key!r} is no object")
    old = members(text, servers[0]).get(name)
    if old is None:
        return insert(text, servers[0], name, entry, 2)
    return text[: old[0]] + rendered(entry, 2) + text[old[1] :]


def rendered(value: Any, level: int) -> str:
    return json.dumps(value, indent=INDENT, ensure_ascii=False).replace("\n", "\n" + INDENT * level)


def insert(text: str, opening: int, key: str, value: Any, level: int) -> str:
    """Puts a member first in the object that opens at `opening`."""
    member = f"\n{INDENT * level}{json.dumps(key)}: {rendered(value, level)}"
    rest = text[opening + 1 :]
    is_empty = rest.lstrip().startswith("}")
    after = "\n" + INDENT * (level - 1) + rest.lstrip() if is_empty and not members(text, opening) else "," + rest
    return text[: opening + 1] + member + after


def edit_toml(text: str, key: str, name: str, entry: dict[str, Any]) -> str:
    """The text with the entry as a table of its own, in its old place or at the end."""
    table = f"[{key}.{name}]\n" + "".join(f"{field} = {json.dumps(value)}\n" for field, value in entry.items())
    header = rf'^\[\s*{re.escape(key)}\s*\.\s*"?{re.escape(name)}"?\s*\][^\n]*\n?'
    old = re.compile(header + r"(?:(?!\s*\[)[^\n]*\n?)*", re.MULTILINE)
    if old.search(text):
        return old.sub(lambda _: table + "\n", text, count=1)
    return text + ("\n" if text and not text.endswith("\n") else "") + ("\n" if text.strip() else "") + table


def edited(path: str, text: str, key: str, name: str, entry: dict[str, Any]) -> str:
    """The new text, once it reads as the old one with the entry."""
    is_toml = path.endswith(".toml")
    try:
        before = tomllib.loads(text) if is_toml else read_json(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise CannotEdit(f"it cannot be read: {error}") from error
    if not isinstance(before, dict) or not isinstance(before.get(key, {}), dict):
        raise CannotEdit(f"it holds no object, or {key!r} is none")
    wanted = {**before, key: {**before.get(key, {}), name: entry}}
    if wanted == before:
        return text
    new = (edit_toml if is_toml else edit_json)(text, key, name, entry)
    if (tomllib.loads(new) if is_toml else read_json(new)) != wanted:
        raise CannotEdit("the entry has no place of its own there")
    return new


def write(path: str, text: str) -> None:
    """In one piece, with the mode the file had; a new one is for its owner alone."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o600
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".mcp-code-bridge-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise


def main(arguments: list[str]) -> int:
    """Exit status 0 also where a file was left alone: the rest of a user's generation does not depend on it."""
    file, key, name, entry_text = arguments
    entry = json.loads(entry_text)
    path = os.path.realpath(file)
    try:
        text = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8", newline="") as opened:
                text = opened.read()
        new = edited(path, text, key, name, entry)
        if new != text:
            write(path, new)
    except (CannotEdit, OSError, ValueError) as error:
        print(f"mcp-code-bridge: {file} was left as it is: {error}", file=sys.stderr)
        print(f"Enter it there yourself: {json.dumps({key: {name: entry}})}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
