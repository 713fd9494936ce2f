"""The files below `/projects`: put there as the host has them, and after each run those that changed are named to it.

They come, and are written, while nothing runs, or when code looks at the folder; few code does. Memories and
`user_tools.py` are views: there to be read, and not to be written.
"""

from _collections import deque
from _stat import S_ISDIR, S_ISLNK, S_ISREG
import _thread
from binascii import a2b_base64, b2a_base64
import posix
import sys

from _mcp_guest.frames import encode
from _mcp_guest.servers.rpc import calls, holder

__all__ = [
    "NAME", "busy", "changes", "collect", "forget", "hide", "is_behind", "problems", "receive", "settle", "show",
    "watch", "write",
]  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Fingerprint = tuple[int, int, int, int]

ROOT = posix.environ.get(b"MCP_GUEST_PROJECTS", b"/projects").decode()
# What code says, or the path that it uses, when it means the folder.
NAME = "projects"
# A child process may look at anything.
STARTS = frozenset(("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"))
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
        # The host has files that it has not sent; whether it was asked for them, and what is free when they are here.
        self.absent = self.asked = False
        self.arrived = _thread.allocate_lock()
        # What to do, and with which entry; taken out when it is done. What was saved here comes after what is sent.
        self.sent: deque[tuple[Callable[..., None], Any]] = deque()
        self.saved: deque[tuple[Callable[..., None], Any]] = deque()
        # Handlers of signals may come here in the midst of a write.
        self.writing = _thread.RLock()
        self.problems: list[str] = []
        self.watched = False

    def forget(self) -> None:
        """In a forked child, which has no reader: what it has is all it gets."""
        self.absent = False
        self.sent.clear()
        self.saved.clear()
        self.writing = _thread.RLock()


_state = _State()
posix.register_at_fork(after_in_child=_state.forget)


def busy() -> bool:
    """Something can be written now."""
    return bool(_queue())


def is_behind() -> bool:
    """Not all that there should be is there."""
    return _state.absent or bool(_queue())


def receive(frame: "dict[str, Any]") -> None:
    """In the thread that reads: what a `state` frame has of files, and whether more is to come."""
    for path in _texts(frame.get("gone")):
        _state.sent.append((_remove, (path,)))
    for entry in frame.get("files") or ():
        _state.sent.append((_append if entry[3:] == [True] else _give, entry))
    for entry in frame.get("views") or ():
        _state.sent.append((_show, entry))
    more = frame.get("more") is True
    if more and not _state.absent:
        _state.arrived = _thread.allocate_lock()
        _state.arrived.acquire()
        _state.absent, _state.asked = True, False
    elif _state.absent and not more:
        _state.absent = False
        _state.arrived.release()


def settle() -> None:
    """Comes back when all is there. What is cut off is done again."""
    with _state.writing:
        if _state.absent:
            if not _state.asked:
                calls().tell(encode({"type": "fetch"}))
                _state.asked = True
            calls().inbox.expect()
            with _state.arrived:
                pass
        _write(lambda: True)


def write(go_on: "Callable[[], bool]") -> None:
    """Writes what came so far, as long as it is to go on. Not where a thread waits for more: the caller is to read."""
    if _state.writing.acquire(blocking=False):
        try:
            _write(go_on)
        finally:
            _state.writing.release()


def watch() -> None:
    """From now on, whatever looks at the folder waits for what should be there. Of code that only asks
    whether a file exists Python does not tell."""
    if not _state.watched:
        _state.watched = True
        sys.addaudithook(_see)


def _see(event: str, details: "tuple[object, ...]") -> None:
    if not (_state.absent or _state.sent):
        return
    looks = event in STARTS or ((event == "open" or event[:3] == "os.") and any(map(_means_folder, details[:2])))
    # What the runtime does itself is no reason, and who reads what comes cannot wait for it.
    current = holder.current if looks and not _is_own(sys._getframe(1).f_globals) else None
    if current is not None and current.running and not current.inbox.is_reader():
        settle()


def _is_own(namespace: "dict[str, object]") -> bool:
    return str(namespace.get("__name__")).startswith("_mcp_guest.")


def _means_folder(path: object) -> bool:
    if hasattr(type(path), "__fspath__"):
        try:
            path = posix.fspath(path)  # type: ignore[call-overload]
        except Exception:
            return False  # the call itself will say so
    return NAME in path if isinstance(path, str) else isinstance(path, bytes) and NAME.encode() in path


def _queue() -> "deque[tuple[Callable[..., None], Any]]":
    """What is to be done next; what was saved here is newer than all that the host sends."""
    return _state.sent if _state.sent or _state.absent else _state.saved


def _write(go_on: "Callable[[], bool]") -> None:
    with _OpenMemory():
        while (queue := _queue()) and go_on():
            act, entry = first = queue[0]
            _attempt(act, entry)
            if queue and queue[0] is first:
                queue.popleft()


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
    _state.saved.append((_show, [path, content.decode()]))
    write(lambda: True)


def hide(path: str) -> None:
    """A view is gone on the host."""
    _state.saved.append((_remove, (path,)))
    write(lambda: True)


def changes() -> "dict[str, object] | None":
    """What differs from what the host has: `changed` files with sizes, `deleted` ones, `odd` ones with reasons."""
    if is_behind():
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
