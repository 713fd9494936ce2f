"""Captured output on its way to the host: collected into frames, counted, and cut at the run's
budget."""

from _json import encode_basestring

from _mcp_guest.init.record import Ring

__all__ = ["FLUSH_BYTES", "FRAME_BYTES", "Stream", "incomplete_tail"]

FLUSH_BYTES = 8192
FRAME_BYTES = 65536
DEFAULT_BUDGET = 1 << 20
# Of the bytes over the budget, the host is shown this many at the end.
TAIL_BYTES = 32 << 10


class Stream:
    """Stdout or stderr. At most `FRAME_BYTES` wait in it; `ring` keeps the last output of all
    runs."""

    __slots__ = (
        "budget", "chunks", "descriptor", "dropped", "dropped_lines", "lines", "name", "ring", "size", "start", "total"
    )  # fmt: skip

    def __init__(self, name: str, descriptor: int, ring: Ring | None = None) -> None:
        self.name = name
        self.descriptor = descriptor
        self.ring = ring
        # Bytes since the guest started, and where among them this run's output begins.
        self.total = self.start = 0
        self.lines = self.dropped_lines = 0
        self.chunks: list[bytes] = []
        self.size = 0
        self.budget = DEFAULT_BUDGET
        self.dropped = 0

    def begin(self, budget: int) -> None:
        """Starts a run. Bytes dropped since the last report stay counted, so that every loss is
        reported."""
        self.budget = budget

    def feed(self, data: bytes) -> bytes:
        """Takes bytes from the pipe; returns a frame when there is enough for one, else nothing."""
        lines = self._record(data)
        if len(data) > self.budget:
            kept = data[: self.budget]
            kept = kept[: len(kept) - incomplete_tail(kept)]
            self.dropped += len(data) - len(kept)
            self.dropped_lines += data.count(b"\n", len(kept)) if kept else lines
            self.budget = 0
            if not kept:
                return b""
            data = kept
        else:
            self.budget -= len(data)
        frame = b""
        if self.size + len(data) > FRAME_BYTES:
            frame = self.take(final=False)
        self.chunks.append(data)
        self.size += len(data)
        if self.size >= FLUSH_BYTES and not frame:
            frame = self.take(final=False)
        return frame

    def _record(self, data: bytes) -> int:
        """Writes the bytes to the ring, for later runs; returns their number of line ends."""
        lines = data.count(b"\n")
        self.total += len(data)
        self.lines += lines
        if self.ring is not None:
            try:
                self.ring.write(data)
            except OSError:
                self.ring = None  # Out of memory: the output itself matters more than its copy.
        return lines

    def end_run(self) -> tuple[int, int]:
        """Ends the run; returns where its output began and its number of line ends. Later output is
        the next run's."""
        ended = self.start, self.lines
        self.start, self.lines = self.total, 0
        self.dropped = self.dropped_lines = 0
        return ended

    @property
    def lost(self) -> int:
        """Bytes of this run that the ring has lost."""
        kept = self.ring.capacity if self.ring is not None else 0
        return max(0, self.total - self.start - kept)

    def tail(self) -> bytes:
        """The last of the dropped bytes."""
        size = min(self.dropped, TAIL_BYTES)
        if self.ring is None or not size:
            return b""
        try:
            return self.ring.read(self.total - size, self.total)
        except OSError:
            return b""

    def take(self, *, final: bool) -> bytes:
        """The waiting bytes as a frame. Unless `final`, an incomplete character waits for its
        end."""
        if not self.size:
            return b""
        data = b"".join(self.chunks)
        tail = 0 if final else incomplete_tail(data)
        self.chunks.clear()
        self.size = tail
        if tail:
            self.chunks.append(data[-tail:])
            data = data[:-tail]
        return self._frame(data) if data else b""

    def _frame(self, data: bytes) -> bytes:
        try:
            text = encode_basestring(data.decode())
        except UnicodeDecodeError:
            from binascii import b2a_base64

            text = f'"{b2a_base64(data, newline=False).decode()}"'
            return f'{{"type":"{self.name}","base64":{text}}}\n'.encode()
        return f'{{"type":"{self.name}","data":{text}}}\n'.encode()


def incomplete_tail(data: bytes) -> int:
    """The number of bytes at the end that begin a UTF-8 character but do not complete it."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            return 0
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4 if byte < 0xF5 else 0
            return back if needed > back else 0
    return 0
