"""The files below `/projects`: put there as the host has them, and after each run those that changed are named to it.

They are written while nothing runs, or before code that mentions the folder. Memories and `user_tools.py` are views:
there to be read, and not to be written.
"""

from _collections import deque
from _stat import S_ISDIR, S_ISLNK, S_ISREG
import _thread
from binascii import a2b_base64, b2a_base64
import posix

from mcp._guest.frames import encode

__all__ = ["busy", "changes", "collect", "forget", "hide", "problems", "receive", "settle", "show"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Fingerprint = tuple[int, int, int, int]

ROOT = posix.environ.get(b"MCP_GUEST_PROJECTS", b"/projects").decode()
MEMORY = "memory"
VIEW_MODE, VIEW_FOLDER_MODE = 0o444, 0o555
FILE_MODE, FOLDER_MODE = 0o644, 0o755
# Entries looked at after a run.
MOST_ENTRIES = 20_000
DEEPEST = 40
# Files named after a run, and bytes of a piece of one.
MOST_NAMED = 10_000
PIECE = 4 << 20
WRITE = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC
APPEND = posix.O_WRONLY | posix.O_APPEND | posix.O_NOFOLLOW | posix.O_CLOEXEC
READ = posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC


class _State:
    """What the host has, and what is still to be written here."""

    def __init__(self) -> None:
        self.known: dict[str, Fingerprint] = {}
        # What to do, and with which entry; taken out when it is done.
        self.waiting: deque[tuple[Callable[..., None], Any]] = deque()
        self.writing = _thread.allocate_lock()
        self.problems: list[str] = []


_state = _State()


def busy() -> bool:
    """Something is to be written still."""
    return bool(_state.waiting)


def receive(frame: "dict[str, Any]") -> None:
    """In the reader thread: what a `state` frame has of files."""
    for path in _texts(frame.get("gone")):
        _state.waiting.append((_remove, (path,)))
    for entry in frame.get("files") or ():
        _state.waiting.append((_append if entry[3:] == [True] else _give, entry))
    for entry in frame.get("views") or ():
        _state.waiting.append((_show, entry))


def settle(go_on: "Callable[[], bool]" = lambda: True) -> None:
    """Comes back when all is written, or when it is not to go on. What is cut off is done again."""
    with _state.writing, _OpenMemory():
        while _state.waiting and go_on():
            act, entry = _state.waiting[0]
            _attempt(act, entry)
            _state.waiting.popleft()


def _attempt(act: "Callable[..., None]", entry: "Any") -> None:
    try:
        act(entry[0], *([_bytes(entry)] if entry[1:] else ()))
    except (OSError, ValueError) as error:
        _state.problems.append(f"/projects/{entry[0]}: {getattr(error, 'strerror', None) or error}")


class _OpenMemory:
    """Lets the folder of memories be written to, for a moment."""

    def __enter__(self) -> None:
        self._set(FOLDER_MODE)

    def __exit__(self, *error: object) -> None:
        self._set(VIEW_FOLDER_MODE)

    def _set(self, mode: int) -> None:
        try:
            posix.chmod(f"{ROOT}/{MEMORY}", mode)
        except OSError:
            pass  # there is none yet; or each file will say so


def problems() -> "list[str]":
    """What could not be written, said once."""
    told, _state.problems = _state.problems, []
    return told


def show(path: str, content: bytes) -> None:
    """A view has changed on the host."""
    _state.waiting.append((_show, [path, content.decode()]))
    settle()


def hide(path: str) -> None:
    """A view is gone on the host."""
    _state.waiting.append((_remove, (path,)))
    settle()


def changes() -> "dict[str, object] | None":
    """What differs from what the host has: `changed` files with sizes, `deleted` ones, `odd` ones with reasons."""
    if busy():
        try:
            if not posix.listdir(ROOT):
                return None
        except OSError:
            return None
        settle()
    found, odd = _scan()
    changed = [[path, mark[1]] for path, mark in found.items() if _state.known.get(path) != mark]
    deleted = [path for path in _state.known if path not in found]
    if not (changed or deleted or odd):
        return None
    return {"changed": changed[:MOST_NAMED], "deleted": deleted[:MOST_NAMED], "odd": odd[:100]}


def collect(request: "dict[str, Any]", send: "Callable[[bytes], None]") -> None:
    """Sends the files that the host asks for; from then on it has them."""
    for path in _texts(request.get("deleted")):
        _state.known.pop(path, None)
    for path in _texts(request.get("paths")):
        try:
            mark = _send(path, send)
        except (OSError, ValueError) as error:
            send(encode({"type": "project_file", "path": path, "error": type(error).__name__}))
        else:
            _state.known[path] = mark
    send(encode({"type": "collected", "id": request.get("id")}))


def forget(paths: object) -> None:
    """The host could not keep them: they count as changed."""
    for path in _texts(paths):
        if path in _state.known:
            _state.known[path] = (0, 0, 0, 0)


def _send(path: str, send: "Callable[[bytes], None]") -> "Fingerprint":
    descriptor = posix.open(f"{ROOT}/{path}", READ)
    try:
        status = posix.fstat(descriptor)
        if not S_ISREG(status.st_mode):
            raise ValueError("no regular file")
        left = status.st_size
        while True:
            data = posix.read(descriptor, min(PIECE, left))
            left -= len(data)
            # What grows while it is read is seen as changed after the next run.
            more = bool(data) and left > 0
            frame: dict[str, object] = {"type": "project_file", "path": path}
            try:
                frame["text"] = data.decode() if data.isascii() else _whole(data, more)
            except UnicodeDecodeError:
                frame["base64"] = b2a_base64(data, newline=False).decode()
            if more:
                frame["more"] = True
            send(encode(frame))
            if not more:
                return _mark(status)
    finally:
        posix.close(descriptor)


def _whole(data: bytes, more: bool) -> str:
    if more:
        raise UnicodeDecodeError("utf-8", data, 0, 1, "a character may be cut")
    return data.decode()


def _scan() -> "tuple[dict[str, Fingerprint], list[list[str]]]":
    found: dict[str, Fingerprint] = {}
    odd: list[list[str]] = []
    folders = [("", 0)]
    looked_at = 0
    while folders:
        prefix, depth = folders.pop()
        try:
            entries = list(posix.scandir(f"{ROOT}/{prefix}"))
        except OSError:
            continue
        for entry in entries:
            looked_at += 1
            if looked_at > MOST_ENTRIES:
                odd.append([prefix or ".", f"there are more than {MOST_ENTRIES:,} files"])
                return found, odd
            path = prefix + entry.name
            if path == MEMORY or entry.name == "__pycache__":
                continue
            try:
                path.encode()
                status = entry.stat(follow_symlinks=False)
            except UnicodeEncodeError:
                odd.append([path.encode("utf-8", "backslashreplace").decode(), "its name is not UTF-8"])
                continue
            except OSError:
                continue  # gone meanwhile
            if S_ISREG(status.st_mode):
                found[path] = _mark(status)
            elif S_ISDIR(status.st_mode):
                if depth < DEEPEST:
                    folders.append((f"{path}/", depth + 1))
                else:
                    odd.append([path, "it lies too deep"])
            else:
                odd.append([path, "it is a symbolic link" if S_ISLNK(status.st_mode) else "it is no regular file"])
    return found, odd


def _mark(status: posix.stat_result) -> "Fingerprint":
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _give(path: str, content: bytes) -> None:
    """A file of the project. One that code has made meanwhile is newer."""
    try:
        _place(path, content, FILE_MODE)
    except FileExistsError:
        if path in _state.known:
            _remove(path)
            _place(path, content, FILE_MODE)


def _show(path: str, content: bytes) -> None:
    """A view."""
    try:
        _place(path, content, VIEW_MODE)
    except FileExistsError:
        posix.unlink(f"{ROOT}/{path}")
        _place(path, content, VIEW_MODE)


def _place(path: str, content: bytes, mode: int) -> None:
    try:
        descriptor = posix.open(f"{ROOT}/{path}", WRITE, mode)
    except FileNotFoundError:
        _make_folders(path)
        descriptor = posix.open(f"{ROOT}/{path}", WRITE, mode)
    _fill(descriptor, path, content)


def _append(path: str, content: bytes) -> None:
    """What follows of a large file, unless code has made its own meanwhile."""
    if path in _state.known:
        _fill(posix.open(f"{ROOT}/{path}", APPEND), path, content)


def _fill(descriptor: int, path: str, content: bytes) -> None:
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[posix.write(descriptor, rest) :]
        if not path.startswith(f"{MEMORY}/"):
            _state.known[path] = _mark(posix.fstat(descriptor))
    finally:
        posix.close(descriptor)


def _make_folders(path: str) -> None:
    made = ROOT
    for part in path.split("/")[:-1]:
        made = f"{made}/{part}"
        try:
            posix.mkdir(made, FOLDER_MODE)
        except FileExistsError:
            pass


def _remove(path: str) -> None:
    _state.known.pop(path, None)
    try:
        posix.unlink(f"{ROOT}/{path}")
    except FileNotFoundError:
        pass


def _bytes(entry: "list[Any]") -> bytes:
    """`[path, text]` or `[path, null, base64, whether it goes behind what is there]`."""
    return a2b_base64(entry[2]) if entry[1] is None else str(entry[1]).encode()


def _texts(value: object) -> "list[str]":
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
