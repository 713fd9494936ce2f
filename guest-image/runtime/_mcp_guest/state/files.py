"""The folder `out` in the working directory: what lies there is listed after each run and can be read by the host.

Only regular files below the folder count; nothing here follows a link.
"""

import _io
import _stat
import posix

__all__ = ["LIMIT", "Folder", "folder", "save"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

HOME = "/workspace"
NAME = "out"
# The host asks for pieces; one has at most this much.
LIMIT = 8 << 20
MOST_FILES = 100
MOST_ENTRIES = 2000
DEPTH = 5
PATH_BYTES = 1024
SAFE = posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NOFOLLOW | posix.O_NONBLOCK


class Folder:
    """The folder, and what it had when it was last looked at."""

    def __init__(self) -> None:
        home = posix.getcwd()
        self.path = f"{home}/{NAME}"
        self.seen: dict[str, tuple[int, int, int]] = {}
        if home == HOME:
            try:
                posix.mkdir(self.path)
            except OSError:
                pass

    def look(self) -> "dict[str, object]":
        """For `execution_done`: its files, new and changed ones first, and how many of these are left out."""
        found: dict[str, tuple[int, int, int]] = {}
        try:
            for path, status in self._walk():
                found[path] = (status.st_size, status.st_mtime_ns, status.st_ino)
        except OSError:
            pass  # it changed meanwhile: what was seen is told
        new = [path for path, told in found.items() if self.seen.get(path) != told]
        is_new = set(new)
        old = [path for path in found if path not in is_new]
        self.seen = found
        if not found:
            return {}
        chosen = (new + old)[:MOST_FILES]
        listed: list[dict[str, object]] = [
            {"path": path, "size": found[path][0], "new": path in is_new} for path in sorted(chosen)
        ]
        return {"files": listed, "more_files": max(0, len(new) - MOST_FILES)}

    def _walk(self) -> "Iterator[tuple[str, posix.stat_result]]":
        try:
            if not _stat.S_ISDIR(posix.lstat(self.path).st_mode):
                return
        except OSError:
            return
        waiting = [("", 0)]
        entries = 0
        while waiting:
            below, depth = waiting.pop()
            try:
                scan = posix.scandir(f"{self.path}/{below}")
            except OSError:
                continue  # removed meanwhile
            with scan:
                for entry in scan:
                    entries += 1
                    if entries > MOST_ENTRIES:
                        return
                    path = below + entry.name
                    if not _is_text(path):
                        continue
                    if entry.is_dir(follow_symlinks=False) and depth < DEPTH:
                        waiting.append((f"{path}/", depth + 1))
                    elif entry.is_file(follow_symlinks=False):
                        try:
                            yield path, entry.stat(follow_symlinks=False)
                        except OSError:
                            pass  # just removed

    def read(self, path: str, offset: int, size: int) -> tuple[bytes, int]:
        """A piece of a file, and the size of all. Raises `OSError` or `ValueError` for anything but a regular file."""
        parts = path.split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in parts) or offset < 0:
            raise ValueError(path)
        descriptor = posix.open(self.path, SAFE | posix.O_DIRECTORY)
        try:
            for index, part in enumerate(parts):
                kind = 0 if index == len(parts) - 1 else posix.O_DIRECTORY
                inner = posix.open(part, SAFE | kind, dir_fd=descriptor)
                posix.close(descriptor)
                descriptor = inner
            status = posix.fstat(descriptor)
            if not _stat.S_ISREG(status.st_mode):
                raise ValueError(path)
            return posix.pread(descriptor, max(0, min(size, LIMIT)), offset), status.st_size
        finally:
            posix.close(descriptor)

    def answer(self, frame: "dict[str, object]") -> "dict[str, object]":
        """The `file` frame for a `read_file` frame."""
        told: dict[str, object] = {"type": "file", "call": frame.get("call")}
        path, offset, size = frame.get("path"), frame.get("offset"), frame.get("bytes")
        if not (isinstance(path, str) and isinstance(offset, int) and isinstance(size, int)):
            return {**told, "error": "a path, an offset and a number of bytes are needed"}
        try:
            data, whole = self.read(path, offset, size)
        except Exception:
            return {**told, "error": "no such file"}
        from binascii import b2a_base64

        return {**told, "size": whole, "base64": b2a_base64(data, newline=False).decode()}


def _is_text(path: str) -> bool:
    try:
        return len(path.encode()) <= PATH_BYTES
    except UnicodeEncodeError:
        return False


folder = Folder()


def save(name: str, data: bytes) -> None:
    """Writes a file of the runtime's own."""
    try:
        posix.mkdir(folder.path)
    except FileExistsError:
        pass
    with _io.open(f"{folder.path}/{name}", "wb") as file:
        file.write(data)
