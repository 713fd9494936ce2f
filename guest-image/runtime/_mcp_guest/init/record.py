"""Output of earlier runs, in memory that init writes and the worker reads: a ring of bytes per
stream.

Init makes it before the fork and never reads its own counts from it: user code may write anything
into it, and then misleads only itself.
"""

import posix

__all__ = ["Index", "Record", "Ring", "Span", "capacities"]

HEADER_BYTES = 4096
ENTRY_BYTES = 64
RUNS = HEADER_BYTES // ENTRY_BYTES - 1
NUMBERS = 7
MOST_BYTES = (12 << 20, 4 << 20)
LEAST_BYTES = 64 << 10
# The rings together take at most this part of the guest's memory.
MEMORY_PART = 32


def capacities(memory: int | None) -> tuple[int, int]:
    """Bytes of the rings of stdout and stderr in a guest with this much memory."""
    if memory is None:
        return MOST_BYTES
    out, err = (max(LEAST_BYTES, min(most, memory // MEMORY_PART * most // sum(MOST_BYTES))) for most in MOST_BYTES)
    return out, err


class Ring:
    """The last bytes of one stream, in a region of a file."""

    __slots__ = ("capacity", "descriptor", "end", "end_offset", "start")

    def __init__(self, descriptor: int, end_offset: int, start: int, capacity: int) -> None:
        """`end_offset` is where in the file the reader finds `end`."""
        self.descriptor, self.end_offset, self.start, self.capacity = descriptor, end_offset, start, capacity
        # Bytes written since the guest started.
        self.end = 0

    def write(self, data: bytes) -> None:
        rest = memoryview(data)[-self.capacity :]
        at = (self.end + len(data) - len(rest)) % self.capacity
        self.end += len(data)
        # Before old bytes are overwritten: a reader must not mistake new ones for them.
        posix.pwrite(self.descriptor, _numbers(self.end), self.end_offset)
        while rest:
            piece = rest[: self.capacity - at]
            written = posix.pwrite(self.descriptor, piece, self.start + at)
            rest = rest[written:]
            at = (at + written) % self.capacity

    def oldest(self) -> int:
        """The number of the first byte that is still in the ring."""
        self.end = int.from_bytes(posix.pread(self.descriptor, 8, self.end_offset), "little")
        return max(0, self.end - self.capacity)

    def read(self, start: int, end: int) -> bytes:
        """Bytes by their number since the guest started; `start` must not be below `oldest()`."""
        pieces = []
        while start < end:
            at = start % self.capacity
            piece = posix.pread(self.descriptor, min(end - start, self.capacity - at), self.start + at)
            if not piece:
                break
            pieces.append(piece)
            start += len(piece)
        return b"".join(pieces)


class Record:
    """Init's side: writes both rings and, after each run, an entry that locates its output."""

    def __init__(self, memory: int | None) -> None:
        self.descriptor = posix.memfd_create("output", posix.MFD_CLOEXEC)
        out, err = capacities(memory)
        self.rings = _rings(self.descriptor, out, err)
        self.runs = 0
        posix.pwrite(self.descriptor, _numbers(out, err), 0)

    def end_run(self, cell: int, spans: "tuple[tuple[int, int], tuple[int, int]]") -> None:
        """`spans`: where the run's output began and its number of line ends, for each stream."""
        (out, out_lines), (err, err_lines) = spans
        entry = _numbers(cell, out, self.rings[0].end, out_lines, err, self.rings[1].end, err_lines)
        self.runs += 1
        posix.pwrite(self.descriptor, entry, ENTRY_BYTES * (1 + self.runs % RUNS))


class Span:
    """The part of a ring that holds the output of one run."""

    __slots__ = ("end", "lines", "ring", "start")

    def __init__(self, ring: Ring, start: int, end: int, lines: int) -> None:
        self.ring, self.start, self.end, self.lines = ring, start, end, lines

    @property
    def size(self) -> int:
        return self.end - self.start


class Index:
    """The worker's side: finds the output of each run that is still in the rings."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        status = posix.fstat(descriptor)
        self.identity = status.st_dev, status.st_ino

    def runs(self) -> "dict[int, tuple[Span, Span]]":
        """Stdout and stderr by cell, in order; raises `OSError` where user code closed or replaced
        the descriptor."""
        status = posix.fstat(self.descriptor)
        if (status.st_dev, status.st_ino) != self.identity:
            raise OSError("the descriptor was replaced")
        header = posix.pread(self.descriptor, HEADER_BYTES, 0)
        out, err, *_ = _parse(header)
        rings = _rings(self.descriptor, out, err)
        found = []
        for place in range(ENTRY_BYTES, len(header), ENTRY_BYTES):
            cell, *rest = _parse(header[place : place + ENTRY_BYTES])
            if cell:
                spans = Span(rings[0], *rest[:3]), Span(rings[1], *rest[3:6])
                found.append((cell, spans))
        return dict(sorted(found, key=lambda run: run[0]))

    def close(self) -> None:
        try:
            posix.close(self.descriptor)
        except OSError:
            pass  # User code has closed it.


def _rings(descriptor: int, out: int, err: int) -> tuple[Ring, Ring]:
    return Ring(descriptor, 16, HEADER_BYTES, out), Ring(descriptor, 24, HEADER_BYTES + out, err)


def _numbers(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, "little") for number in numbers)


def _parse(entry: bytes) -> list[int]:
    return [int.from_bytes(entry[8 * index : 8 * index + 8], "little") for index in range(NUMBERS)]
