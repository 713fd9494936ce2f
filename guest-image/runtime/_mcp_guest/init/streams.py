"""Captured output on its way to the host: gathered into frames, counted, and cut at the run's budget."""

from _json import encode_basestring

from _mcp_guest.init.record import Ring

__all__ = ["FLUSH_BYTES", "FRAME_BYTES", "Stream", "incomplete_tail"]

FLUSH_BYTES = 8192
FRAME_BYTES = 65536
DEFAULT_BUDGET = 1 << 20
# Of what is over the budget, the end that the host is shown.
TAIL_BYTES = 32 << 10


class Stream:
    """One of stdout and stderr. At most `FRAME_BYTES` wait in it; `ring` keeps the end of all."""

    __slots__ = (
        "budget", "chunks", "descriptor", "dropped", "dropped_lines", "lines", "name", "ring", "size", "start", "total"
    )  # fmt: skip

    def __init__(self, name: str, descriptor: int, ring: Ring | None = None) -> None:
        self.name = name
        self.descriptor = descriptor
        self.ring = ring
        # Bytes since the beginning of all, and where the output of this run begins.
        self.total = self.start = 0
        self.lines = self.dropped_lines = 0
        self.chunks: list[bytes] = []
        self.size = 0
        self.budget = DEFAULT_BUDGET
        self.dropped = 0

    def begin(self, budget: int) -> None:
        """A run begins. Bytes dropped since the last report stay counted, so that no loss goes untold."""
        self.budget = budget

    def feed(self, data: bytes) -> bytes:
        """Takes bytes from the pipe and returns a frame when there is enough for one."""
        lines = self._keep(data)
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

    def _keep(self, data: bytes) -> int:
        """Keeps them for later runs; the number of line ends."""
        lines = data.count(b"\n")
        self.total += len(data)
        self.lines += lines
        if self.ring is not None:
            try:
                self.ring.write(data)
            except OSError:
                self.ring = None  # no memory left: output counts more than its copy
        return lines

    def end_run(self) -> tuple[int, int]:
        """The run is over: where its output began, and its line ends. What comes now belongs to the next one."""
        ended = self.start, self.lines
        self.start, self.lines = self.total, 0
        self.dropped = self.dropped_lines = 0
        return ended

    @property
    def lost(self) -> int:
        """Bytes of this run that the ring does not have any more."""
        kept = self.ring.capacity if self.ring is not None else 0
        return max(0, self.total - self.start - kept)

    def tail(self) -> bytes:
        """The end of what was dropped."""
        size = min(self.dropped, TAIL_BYTES)
        if self.ring is None or not size:
            return b""
        try:
            return self.ring.read(self.total - size, self.total)
        except OSError:
            return b""

    def take(self, *, final: bool) -> bytes:
        """The waiting bytes as a frame. Unless `final`, the beginning of a character waits for its end."""
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
    """How many bytes at the end begin a UTF-8 character that needs more bytes than there are."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            return 0
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4 if byte < 0xF5 else 0
            return back if needed > back else 0
    return 0
