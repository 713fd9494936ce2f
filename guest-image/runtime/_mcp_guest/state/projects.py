"""The files below `/projects`: written here as the host has them; after each run the host gets the
list of changes.

They are fetched and written while nothing runs, or when code looks at the folder, which few code
does. Memories and `user_tools.py` are views there: read-only copies of what the host has.
"""

from _collections import deque
from _stat import S_ISDIR, S_ISLNK, S_ISREG
import _thread
from binascii import a2b_base64, b2a_base64
import posix
import sys

from _mcp_guest.frames import encode

__all__ = ["ProjectFiles"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from _mcp_guest.session import Session

    Fingerprint = tuple[int, int, int, int]
    # What to do with an entry of a `state` frame, and the entry.
    Write = tuple[Callable[..., None], Any]

ROOT = posix.environ.get(b"MCP_GUEST_PROJECTS", b"/projects").decode()
# A path with this name in it may be one below the folder.
FOLDER_NAME = "projects"
# Audit events of child processes, which may look at anything.
CHILD_EVENTS = frozenset(("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"))
MEMORY = "memory"
VIEW_MODE, VIEW_FOLDER_MODE = 0o444, 0o555
FILE_MODE, FOLDER_MODE = 0o644, 0o755
# A scan after a run ends after this many entries, and does not go deeper than this.
MOST_ENTRIES = 20_000
DEEPEST = 40
# The most files that are listed after a run, and the bytes of one piece of a file.
MOST_LISTED = 10_000
PIECE_BYTES = 4 << 20
# Characters that JSON writes as six bytes. Bytes with more of them than one in this many are
# shorter as base64, and a piece of nothing else would not fit into a frame.
ESCAPED = bytes(byte for byte in range(32) if byte not in b"\b\t\n\f\r")
LEAST_PER_ESCAPE = 15
CREATE = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC
APPEND = posix.O_WRONLY | posix.O_APPEND | posix.O_NOFOLLOW | posix.O_CLOEXEC
READ = posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC


class ProjectFiles:
    """What the host has, and what is still to be written here."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        # Files as the host has them.
        self.known: dict[str, Fingerprint] = {}
        # Whether the host has files that it has not sent, whether they were requested, and a lock
        # until they are here.
        self.missing = self.requested = False
        self.arrived = _thread.allocate_lock()
        # Writes stay in a queue until they are done. Those for views saved in this session come
        # after the host's.
        self.from_host: deque[Write] = deque()
        self.from_session: deque[Write] = deque()
        # Reentrant: signal handlers may come here in the middle of a write.
        self.writing = _thread.RLock()
        self.problems: list[str] = []
        self.watched = False

    def after_fork(self) -> None:
        """A forked child has no reader thread, so nothing more arrives."""
        self.missing = False
        self.from_host.clear()
        self.from_session.clear()
        self.writing = _thread.RLock()

    @staticmethod
    def is_mentioned(code: str) -> bool:
        """Whether the code may look at the folder."""
        return FOLDER_NAME in code

    def has_writes(self) -> bool:
        """Whether something can be written now."""
        return bool(self._queue())

    def is_behind(self) -> bool:
        """Whether the folder lacks something that the host has."""
        return self.missing or bool(self._queue())

    def receive(self, frame: "dict[str, Any]") -> None:
        """Queues the files of a `state` frame, in the reading thread, and notes whether more will
        come."""
        for path in _texts(frame.get("gone")):
            self.from_host.append((self._remove, (path,)))
        for entry in frame.get("files") or ():
            self.from_host.append((self._append if entry[3:] == [True] else self._write_file, entry))
        for entry in frame.get("views") or ():
            self.from_host.append((self._write_view, entry))
        more = frame.get("more") is True
        if more and not self.missing:
            self.arrived = _thread.allocate_lock()
            self.arrived.acquire()
            self.missing, self.requested = True, False
        elif self.missing and not more:
            self.missing = False
            self.arrived.release()

    def catch_up(self) -> None:
        """Returns when all files are here. What is interrupted is done again."""
        with self.writing:
            if self.missing:
                if not self.requested:
                    self.session.calls.notify(encode({"type": "fetch"}))
                    self.requested = True
                self.session.calls.inbox.expect_frame()
                with self.arrived:
                    pass
            self._write_queued(lambda: True)

    def write(self, go_on: "Callable[[], bool]") -> None:
        """Writes what has come so far, while `go_on()`. Not while a thread waits for more: this one
        has to read it."""
        if self.writing.acquire(blocking=False):
            try:
                self._write_queued(go_on)
            finally:
                self.writing.release()

    def watch(self) -> None:
        """From now on, code that looks at the folder waits for its files. Python raises no event
        for code that only asks whether a file exists."""
        if not self.watched:
            self.watched = True
            sys.addaudithook(self._audit)

    def _audit(self, event: str, details: "tuple[object, ...]") -> None:
        if not (self.missing or self.from_host):
            return
        looks = event in CHILD_EVENTS or (
            (event == "open" or event[:3] == "os.") and any(map(_may_be_inside, details[:2]))
        )
        # The runtime's own file operations do not count, and the reading thread cannot wait for
        # what it reads.
        calls = self.session.active_calls if looks and not _is_runtime(sys._getframe(1).f_globals) else None
        if calls is not None and calls.running and not calls.inbox.is_reader():
            self.catch_up()

    def _queue(self) -> "deque[Write]":
        """The queue to work on: what this session saved is newer than all that the host sends."""
        return self.from_host if self.from_host or self.missing else self.from_session

    def _write_queued(self, go_on: "Callable[[], bool]") -> None:
        with _WritableMemory():
            while (queue := self._queue()) and go_on():
                act, entry = first = queue[0]
                self._attempt(act, entry)
                if queue and queue[0] is first:
                    queue.popleft()

    def _attempt(self, act: "Callable[..., None]", entry: "Any") -> None:
        try:
            act(entry[0], *([_content(entry)] if entry[1:] else ()))
        except (OSError, ValueError) as error:
            self.problems.append(f"/projects/{entry[0]}: {getattr(error, 'strerror', None) or error}")

    def take_problems(self) -> "list[str]":
        """What could not be written; each problem is returned once."""
        problems, self.problems = self.problems, []
        return problems

    def show_view(self, path: str, content: bytes) -> None:
        """Writes a view that has changed on the host."""
        self.from_session.append((self._write_view, [path, content.decode()]))
        self.write(lambda: True)

    def hide_view(self, path: str) -> None:
        """Removes a view that was deleted on the host."""
        self.from_session.append((self._remove, (path,)))
        self.write(lambda: True)

    def changes(self) -> "dict[str, object] | None":
        """What differs from the host: `changed` files with sizes, `deleted` ones, `odd` ones with
        reasons."""
        if self.is_behind():
            try:
                if not posix.listdir(ROOT):
                    return None
            except OSError:
                return None
            self.catch_up()
        found, odd = _scan()
        changed = [[path, fingerprint[1]] for path, fingerprint in found.items() if self.known.get(path) != fingerprint]
        deleted = [path for path in self.known if path not in found]
        if not (changed or deleted or odd):
            return None
        return {"changed": changed[:MOST_LISTED], "deleted": deleted[:MOST_LISTED], "odd": odd[:100]}

    def collect(self, request: "dict[str, Any]", send: "Callable[[bytes], None]") -> None:
        """Sends the files that the host asks for; from then on the host has them."""
        for path in _texts(request.get("deleted")):
            self.known.pop(path, None)
        for path in _texts(request.get("paths")):
            try:
                fingerprint = _send(path, send)
            except (OSError, ValueError) as error:
                send(encode({"type": "project_file", "path": path, "error": type(error).__name__}))
            else:
                self.known[path] = fingerprint
        send(encode({"type": "collected", "id": request.get("id")}))

    def forget(self, paths: object) -> None:
        """The host could not store these files: they count as changed."""
        for path in _texts(paths):
            if path in self.known:
                self.known[path] = (0, 0, 0, 0)

    def _write_file(self, path: str, content: bytes) -> None:
        """Writes a project file, unless code has made a newer one in the meantime."""
        try:
            self._create(path, content, FILE_MODE)
        except FileExistsError:
            if path in self.known:
                self._remove(path)
                self._create(path, content, FILE_MODE)

    def _write_view(self, path: str, content: bytes) -> None:
        try:
            self._create(path, content, VIEW_MODE)
        except FileExistsError:
            posix.unlink(f"{ROOT}/{path}")
            self._create(path, content, VIEW_MODE)

    def _create(self, path: str, content: bytes, mode: int) -> None:
        try:
            descriptor = posix.open(f"{ROOT}/{path}", CREATE, mode)
        except FileNotFoundError:
            _make_folders(path)
            descriptor = posix.open(f"{ROOT}/{path}", CREATE, mode)
        self._fill(descriptor, path, content)

    def _append(self, path: str, content: bytes) -> None:
        """Appends a piece of a large file, unless code has made a newer one in the meantime."""
        if path in self.known:
            self._fill(posix.open(f"{ROOT}/{path}", APPEND), path, content)

    def _fill(self, descriptor: int, path: str, content: bytes) -> None:
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[posix.write(descriptor, rest) :]
            if not path.startswith(f"{MEMORY}/"):
                self.known[path] = _fingerprint(posix.fstat(descriptor))
        finally:
            posix.close(descriptor)

    def _remove(self, path: str) -> None:
        self.known.pop(path, None)
        try:
            posix.unlink(f"{ROOT}/{path}")
        except FileNotFoundError:
            pass


class _WritableMemory:
    """Makes the folder of memories writable within the block."""

    def __enter__(self) -> None:
        self._set(FOLDER_MODE)

    def __exit__(self, *error: object) -> None:
        self._set(VIEW_FOLDER_MODE)

    def _set(self, mode: int) -> None:
        try:
            posix.chmod(f"{ROOT}/{MEMORY}", mode)
        except OSError:
            pass  # It does not exist yet; otherwise writing each file fails with the reason.


def _is_runtime(namespace: "dict[str, object]") -> bool:
    return str(namespace.get("__name__")).startswith("_mcp_guest.")


def _may_be_inside(path: "Any") -> bool:
    if hasattr(type(path), "__fspath__"):
        try:
            path = posix.fspath(path)
        except Exception:
            return False  # The call itself raises the same.
    return FOLDER_NAME in path if isinstance(path, str) else isinstance(path, bytes) and FOLDER_NAME.encode() in path


def _send(path: str, send: "Callable[[bytes], None]") -> "Fingerprint":
    descriptor = posix.open(f"{ROOT}/{path}", READ)
    try:
        status = posix.fstat(descriptor)
        if not S_ISREG(status.st_mode):
            raise ValueError("not a regular file")
        left = status.st_size
        while True:
            data = posix.read(descriptor, min(PIECE_BYTES, left))
            left -= len(data)
            # A file that grows while it is read counts as changed after the next run.
            more = bool(data) and left > 0
            frame: dict[str, object] = {"type": "project_file", "path": path}
            try:
                frame["text"] = _decode(data, more)
            except UnicodeDecodeError:
                frame["base64"] = b2a_base64(data, newline=False).decode()
            if more:
                frame["more"] = True
            send(encode(frame))
            if not more:
                return _fingerprint(status)
    finally:
        posix.close(descriptor)


def _decode(data: bytes, more: bool) -> str:
    """The text of a piece; raises `UnicodeDecodeError` where base64 is better."""
    if (len(data) - len(data.translate(None, ESCAPED))) * LEAST_PER_ESCAPE > len(data):
        raise UnicodeDecodeError("utf-8", data, 0, 1, "escapes would be longer than base64")
    if more and not data.isascii():
        raise UnicodeDecodeError("utf-8", data, 0, 1, "the last character may be incomplete")
    return data.decode()


def _scan() -> "tuple[dict[str, Fingerprint], list[list[str]]]":
    """The regular files below the folder, and the entries that cannot be stored, with reasons."""
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
                continue  # It was removed in the meantime.
            if S_ISREG(status.st_mode):
                found[path] = _fingerprint(status)
            elif S_ISDIR(status.st_mode):
                if depth < DEEPEST:
                    folders.append((f"{path}/", depth + 1))
                else:
                    odd.append([path, "it lies too deep"])
            else:
                odd.append([path, "it is a symbolic link" if S_ISLNK(status.st_mode) else "it is not a regular file"])
    return found, odd


def _fingerprint(status: posix.stat_result) -> "Fingerprint":
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _make_folders(path: str) -> None:
    folder = ROOT
    for part in path.split("/")[:-1]:
        folder = f"{folder}/{part}"
        try:
            posix.mkdir(folder, FOLDER_MODE)
        except FileExistsError:
            pass


def _content(entry: "list[Any]") -> bytes:
    """The bytes of `[path, text]` or `[path, null, base64, whether to append them]`."""
    return a2b_base64(entry[2]) if entry[1] is None else str(entry[1]).encode()


def _texts(value: object) -> "list[str]":
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
