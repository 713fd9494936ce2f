"""Unit tests of parts of the runtime."""

import ast
import base64
import json
import random
import subprocess
import sys

import pytest

from _mcp_guest import frames
from _mcp_guest.init import cgroup, main
from _mcp_guest.init.streams import FRAME_BYTES, Stream, incomplete_tail
from _mcp_guest.worker import hints, source, start
from guest import RUNTIME


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"abc", 0),
        ("é".encode(), 0),
        ("é".encode()[:1], 1),
        ("a€".encode()[:-1], 2),
        ("a€".encode()[:-2], 1),
        ("😀".encode()[:3], 3),
        ("😀".encode()[:1], 1),
        ("😀".encode(), 0),
        (b"\x80\x80\x80\x80", 0),
        (b"\xff", 0),
        (b"\xf8\x80", 0),
        (b"a\xc3", 1),
    ],
)
def test_incomplete_tail(data: bytes, expected: int) -> None:
    assert incomplete_tail(data) == expected


def _content(lines: bytes) -> bytes:
    out = b""
    for line in lines.splitlines():
        frame = json.loads(line)
        assert frame["type"] == "stdout"
        data = frame["data"].encode() if "data" in frame else base64.b64decode(frame["base64"])
        assert 0 < len(data) <= FRAME_BYTES
        out += data
    return out


@pytest.mark.parametrize("seed", range(30))
def test_stream_keeps_every_byte_up_to_its_budget(seed: int) -> None:
    chance = random.Random(seed)
    pieces = []
    for _ in range(chance.randrange(1, 60)):
        text = "".join(chance.choice('aé€😀\n"\\\0\x7f') for _ in range(chance.choice((1, 3, 100, 20_000)))).encode()
        pieces.append(text if chance.random() < 0.7 else chance.randbytes(len(text)))
    whole = b"".join(pieces)
    budget = chance.randrange(0, len(whole) * 2)
    stream = Stream("stdout", 1)
    stream.begin(budget)
    lines, rest = b"", whole
    while rest:
        size = chance.randrange(1, 40_000)
        lines += stream.feed(rest[:size])
        rest = rest[size:]
        if chance.random() < 0.1:
            lines += stream.take(final=False)
    lines += stream.take(final=True)
    content = _content(lines)
    assert whole.startswith(content)
    assert len(content) + stream.dropped == len(whole)
    assert budget - 3 <= len(content) <= budget or content == whole


def test_frames_survive_every_text() -> None:
    frame: dict[str, object] = {"type": "t", "text": 'é😀\n"\\\0\u2028', "n": None, "f": 1.5, "b": True, "l": [{}]}
    line = frames.encode(frame)
    assert line.count(b"\n") == 1
    assert frames.decode(line) == json.loads(line) == frame
    assert json.loads(frames.encode({"type": "\ud800x\udfff"})) == {"type": "\\ud800x\\udfff"}


@pytest.mark.parametrize(
    "line", [b"", b"[]", b"{}", b'{"type":1}', b'{"type":"a"}x', b"\xff", b"{" * 99_999, b'{"a":tru']
)
def test_lines_that_are_not_frames_are_rejected(line: bytes) -> None:
    with pytest.raises(frames.FrameError):
        frames.decode(line)


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        ("1", True),
        ("1;", False),
        ("1 \\\n;", False),
        ("(1,\n2);#", False),
        ("'é';", False),
        ("1 # ;", True),
        ("x=1", False),
    ],
)
def test_last_expression_is_stored_unless_silenced(code: str, kept: bool) -> None:
    assert (source.RESULT in source.compile_cell(code, "<cell 1>").co_names) == kept


def test_remembered_sources_are_bounded() -> None:
    for number in range(50):
        source.remember(f"<cell b{number}>", "#" * (1 << 20))
    assert source.line_of("<cell b49>", 1)
    assert not source.line_of("<cell b1>", 1)


def test_lines_are_counted_as_the_compiler_counts() -> None:
    lines = source.remember("<cell 1>", "a = 1\r\nb = '\x0c\u2028\x1c'\rc = 3")
    assert lines == ["a = 1\n", "b = '\x0c\u2028\x1c'\n", "c = 3\n"]
    assert [node.lineno for node in ast.parse("".join(lines)).body] == [1, 2, 3]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("time.sleep(100)", " (time.sleep)"),
        ("é = [time.sleep(1)]", " (time.sleep)"),
        ("x = a[0].b('é')(1)", " (a[0].b('é'))"),
        ("1 / 0", ""),
        ("f" * 70 + "()", ""),
    ],
)
def test_location_names_the_call(line: str, expected: str) -> None:
    source.remember("<cell 8>", line)
    code = compile(line, "<cell 8>", "exec")
    starts = [i for i, p in enumerate(code.co_positions()) if p[2] is not None and p[3] is not None]
    widest = max(starts, key=lambda i: list(code.co_positions())[i][3] or 0) if "é = [" not in line else -1
    if widest == -1:
        text = line.encode()
        begin = text.index(b"time")
        widest = next(i for i, p in enumerate(code.co_positions()) if p[2] == begin and p[3] == len(text) - 1)
    calls = [i for i, p in enumerate(code.co_positions()) if p == list(code.co_positions())[widest]]
    assert str(source.Location(code, calls[-1] * 2, 1)) == f"cell 8, line 1{expected}"


@pytest.mark.parametrize(
    ("filename", "expected"),
    [
        ("<cell 1>", True),
        ("<string>", True),
        ("/workspace/own.py", True),
        ("<frozen importlib._bootstrap>", False),
        (json.__file__, False),
        (source.__file__, False),
        (source.__file__.replace("_mcp_guest/worker/source.py", "entry.py"), False),
        ("/usr/lib/python3/dist-packages/numpy/core.py", False),
    ],
)
def test_user_code_is_told_from_the_library(filename: str, expected: bool) -> None:
    assert source.is_user_code(filename) == expected


def test_pid_1_imports_nothing_of_the_worker() -> None:
    code = f"import sys; sys.path.append({str(RUNTIME)!r}); import _mcp_guest.init.main; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", code], capture_output=True, text=True, check=True)
    own = [name for name in ran.stdout.split() if name.startswith(("_mcp_guest.", "mcp"))]
    assert [name for name in own if not name.startswith("_mcp_guest.init")] == ["_mcp_guest.frames"]


def test_ready_reports_what_the_kernel_shows() -> None:
    frame = json.loads(frames.encode(start.ready(0.0)))
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    assert frame["report"]["cap_eff"] == fields["CapEff"].strip()
    assert frame["report"]["seccomp"] == int(fields["Seccomp"])
    assert frame["report"]["no_new_privs"] == (fields["NoNewPrivs"].strip() == "1")
    assert frame["protocol"] == 1
    assert set(frame["report"]) == {
        "cap_eff", "cap_bnd", "no_new_privs", "seccomp", "uid", "gid", "memory_max", "pids_max",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"memory.max": "max\n"}, None),
        ({"memory.max": "536870912\n"}, 536870912),
        ({"memory/memory.limit_in_bytes": "9223372036854771712\n"}, None),
        ({"memory/memory.limit_in_bytes": "1048576\n"}, 1048576),
        ({"memory.max": "²\n"}, None),
    ],
)
def test_memory_limit_in_both_cgroup_versions(
    monkeypatch: pytest.MonkeyPatch, files: dict[str, str], expected: int | None
) -> None:
    monkeypatch.setattr(cgroup, "read", lambda path: files.get(path.removeprefix("/sys/fs/cgroup/"), ""))
    assert cgroup.limit("memory.max", "memory/memory.limit_in_bytes") == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "250000 100000\n"}, 3),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
    ],
)
def test_limit_of_processors_in_both_cgroup_versions(
    monkeypatch: pytest.MonkeyPatch, files: dict[str, str], expected: int | None
) -> None:
    monkeypatch.setattr(cgroup, "read", lambda path: files.get(path.removeprefix("/sys/fs/cgroup/"), ""))
    assert cgroup.cpus() == expected


@pytest.mark.parametrize(
    ("processors", "limits", "threads"),
    [
        (64, {"cpu.max": "50000 100000"}, b"1"),
        (64, {"cpu.max": "max 100000", "pids.max": "128"}, b"16"),
        (64, {}, None),
        (2, {"pids.max": "128"}, None),
        (2, {"cpu.max": "150000 100000"}, None),
    ],
)
def test_threads_of_libraries_follow_the_limits(
    monkeypatch: pytest.MonkeyPatch, processors: int, limits: dict[str, str], threads: bytes | None
) -> None:
    monkeypatch.setattr(cgroup, "read", lambda path: limits.get(path.removeprefix("/sys/fs/cgroup/"), ""))
    monkeypatch.setattr("posix.sched_getaffinity", lambda _: range(processors))
    assert main._own_variables().get(b"OPENBLAS_NUM_THREADS") == threads


def test_limit_of_processes_is_named_when_a_thread_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "read", lambda path: "64" if path.endswith("/pids.max") else "")
    error = RuntimeError("can't start new thread")
    hints.add_hint(error)
    assert error.__notes__ == ["hint: at most 64 processes and threads may exist at once (setting `pids`)"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"memory.events": "low 0\nhigh 0\nmax 41\noom 2\noom_kill 1\noom_group_kill 0\n"}, 1),
        ({"memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"}, 3),
        # Kernels before 4.13 do not count kills.
        ({"memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n"}, None),
        ({"memory.events": "oom_kill many\n"}, None),
    ],
)
def test_oom_kills_in_both_cgroup_versions(
    monkeypatch: pytest.MonkeyPatch, files: dict[str, str], expected: int | None
) -> None:
    monkeypatch.setattr(cgroup, "read", lambda path: files.get(path.removeprefix("/sys/fs/cgroup/"), ""))
    assert cgroup.oom_kills() == expected
