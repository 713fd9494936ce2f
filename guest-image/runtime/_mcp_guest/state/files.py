"""The folder `out` in the working directory: its files are listed after each run, and the host can
read them.

Only regular files below the folder count, and links are never followed.
"""

import _io
import _stat
import posix

__all__ = ["PIECE_BYTES", "OutputFolder"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

HOME = "/workspace"
NAME = "out"
# The host reads files in pieces of at most this size.
PIECE_BYTES = 8 << 20
MOST_FILES = 100
MOST_ENTRIES = 2000
DEPTH = 5
PATH_BYTES = 1024
SAFE = posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NOFOLLOW | posix.O_NONBLOCK


class OutputFolder:
    """The folder, and what was in it when it was last listed."""

    def __init__(self) -> None:
        home = posix.getcwd()
        self.path = f"{home}/{NAME}"
        self.seen: dict[str, tuple[int, int, int]] = {}
        if home == HOME:
            try:
                posix.mkdir(self.path)
            except OSError:
                pass

    def list_files(self) -> "dict[str, object]":
        """The `files` of `execution_done`: new and changed ones first; and how many of these are
        left out."""
        found: dict[str, tuple[int, int, int]] = {}
        try:
            for path, status in self._walk():
                found[path] = (status.st_size, status.st_mtime_ns, status.st_ino)
        except OSError:
            pass  # The folder changed in the meantime: the files found so far are listed.
        new = [path for path, identity in found.items() if self.seen.get(path) != identity]
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
                continue  # It was removed in the meantime.
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
                            pass  # It was removed in the meantime.

    def read(self, path: str, offset: int, size: int) -> tuple[bytes, int]:
        """A piece of a file, and the size of the file; raises `OSError` or `ValueError` unless it
        is a regular file."""
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
            return posix.pread(descriptor, max(0, min(size, PIECE_BYTES)), offset), status.st_size
        finally:
            posix.close(descriptor)

    def answer(self, frame: "dict[str, object]") -> "dict[str, object]":
        """The `file` frame for a `read_file` frame."""
        answer: dict[str, object] = {"type": "file", "call": frame.get("call")}
        path, offset, size = frame.get("path"), frame.get("offset"), frame.get("bytes")
        if not (isinstance(path, str) and isinstance(offset, int) and isinstance(size, int)):
            return {**answer, "error": "a path, an offset and a number of bytes are needed"}
        try:
            data, whole = self.read(path, offset, size)
        except Exception:
            return {**answer, "error": "no such file"}
        from binascii import b2a_base64

        return {**answer, "size": whole, "base64": b2a_base64(data, newline=False).decode()}

    def save(self, name: str, data: bytes) -> None:
        """Writes a file of the runtime's own."""
        try:
            posix.mkdir(self.path)
        except FileExistsError:
            pass
        with _io.open(f"{self.path}/{name}", "wb") as file:
            file.write(data)


def _is_text(path: str) -> bool:
    try:
        return len(path.encode()) <= PATH_BYTES
    except UnicodeEncodeError:
        return False


