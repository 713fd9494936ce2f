"""Output of earlier runs: by lines, within the size of the ring, whatever happened since."""

import base64
import re

import pytest

from _mcp_guest.init.record import Index, Record, capacities
from guest import Guest

RING = capacities(None)[0]


def test_last_output_is_available_by_lines(guest: Guest) -> None:
    guest.check("for n in range(1000): print('line', n)\nimport sys\nprint('careful', file=sys.stderr)", 100)
    guest.check("x = 1")
    assert guest.check("runtime.last_output[60:62]").result == "line 60\nline 61"
    assert guest.check("print(1)\nruntime.last_output.cell").result == "1"


def test_every_way_to_read_an_output(shared: Guest) -> None:
    shared.check("print('a\\nb ERROR\\n\\nc')\nimport sys\nprint('oops', file=sys.stderr)\nprint('end', end='')")
    cell = shared.last
    for code, expected in {
        "len(o)": "5",
        "o[1]": "'b ERROR'",
        "o[-1]": "'end'",
        "list(o)": "['a', 'b ERROR', '', 'c', 'end']",
        "o.lines(1, 3)": "b ERROR\n",
        "o.head(1)": "a",
        "o.tail(2)": "c\nend",
        "o.grep('ERR|^c')": "1: b ERROR\n3: c",
        "o.grep('ERR').numbers": "[1]",
        "o.text": "'a\\nb ERROR\\n\\nc\\nend'",
        "o.stderr[0], len(o.stderr)": "('oops', 1)",
        "o": f"<stdout of cell {cell}: 5 lines, 18 bytes; stderr: 1 lines>",
        "o.grep('nothing')": "(no lines)",
        "o[9:]": "(no lines)",
    }.items():
        found = shared.check(f"o = runtime.outputs[{cell}]\n{code}").result
        assert found == expected.replace("18 bytes", f"{len('a' + chr(10) + 'b ERROR' + chr(10) * 2 + 'c' + chr(10) + 'end')} bytes"), code
    error = shared.run(f"runtime.outputs[{cell}][5]").error
    assert error["message"] == f"stdout of cell {cell} has 5 lines, not a line 5"


def test_bytes_that_are_not_utf8_become_escapes(guest: Guest) -> None:
    guest.check("import os\nos.write(1, b'a\\xffb\\n')\nNone")
    assert guest.check("runtime.last_output.text").result == "'a\\\\xffb\\n'"


def test_no_earlier_output_is_explained(guest: Guest) -> None:
    assert "no earlier run" in guest.run("runtime.last_output").traceback
    assert guest.check("runtime.outputs").result == "{}"


def test_output_larger_than_the_ring_loses_its_start_and_says_so(guest: Guest) -> None:
    lines = RING // 100 + 1000
    outcome = guest.check(f"for n in range({lines}): print(f'{{n:099}}')", 1000)
    (frame,) = [frame for frame in outcome.frames if frame["type"] == "dropped"]
    assert frame["stdout"] == lines * 100 - 1000
    assert frame["lines"] == [lines - 10, 0]
    assert frame["lost"] == [lines * 100 - RING, 0]
    assert base64.b64decode(frame["tails"][0]).endswith(b"%099d\n" % (lines - 1))
    assert guest.check("len(runtime.last_output)").result == str(lines)
    assert guest.check(f"int(runtime.last_output[{lines - 1}])").result == str(lines - 1)
    first = lines - RING // 100
    error = guest.run("runtime.last_output[0]").error["message"]
    assert error == f"line 0 of stdout of cell 1 is not kept any more; lines {first:,} to {lines - 1:,} are"
    assert guest.check(f"int(runtime.last_output[{first}])").result == str(first)
    assert "the last" in str(guest.check("runtime.last_output").result)


def test_a_gigabyte_passes_in_bounded_memory(guest: Guest) -> None:
    code = "import os\nblock = b'x' * 1048575 + b'\\n'\nfor _ in range(1024):\n    view = memoryview(block)\n    while view: view = view[os.write(1, view):]"
    outcome = guest.check(code, 10_000)
    assert outcome.dropped()["stdout"] == (1 << 30) - 10_000
    assert guest.check("len(runtime.last_output), runtime.last_output.kept").result == f"(1024, {RING})"


def test_old_outputs_make_room_for_new_ones(guest: Guest) -> None:
    guest.check("print('first')")
    guest.check(f"import sys\n_ = sys.stdout.write('y' * {RING - 3})", 10)
    assert guest.check("list(runtime.outputs), len(runtime.outputs[1].text)").result == "([1, 2], 3)"
    guest.check("print('third')")
    assert guest.check("list(runtime.outputs)").result == "[2, 4]"
    gone = guest.run("runtime.outputs[1]").traceback
    assert "KeyError: 'no output of cell 1 is kept; there are those of cells 2 to 4'" in gone


def test_latest_outputs_of_many_runs_are_kept(guest: Guest) -> None:
    for number in range(1, 101):
        guest.execute(f"print({number})")
        guest.collect()
    cells = [int(found) for found in re.findall(r"\d+", str(guest.check("list(runtime.outputs)").result))]
    assert cells == list(range(cells[0], 101))
    assert len(cells) > 50
    assert guest.check("[runtime.outputs[c].text for c in runtime.outputs] == [f'{c}\\n' for c in runtime.outputs]").result == "True"


def test_output_between_runs_belongs_to_the_next_run(guest: Guest) -> None:
    guest.check("import threading\ngo, done = threading.Event(), threading.Event()\ndef work():\n    go.wait()\n    print('late')\n    done.set()\nthreading.Thread(target=work).start()")
    guest.check("go.set()\ndone.wait()\nprint('now')")
    assert guest.check("runtime.last_output.text").result == "'late\\nnow\\n'"


FIND = """
import os
def find():
    for n in os.listdir('/proc/self/fd'):
        try:
            if 'memfd:output' in os.readlink(f'/proc/self/fd/{n}'): return int(n)
        except OSError: pass
fd = find()
"""


@pytest.mark.parametrize("act", ["close(fd)", "dup2(0, fd)", "ftruncate(fd, 0)", "pwrite(fd, b'\\xff' * 8192, 0)"])
def test_breaking_the_record_does_no_other_harm(guest: Guest, act: str) -> None:
    guest.check("print('before')")
    guest.check(f"{FIND}os.{act};")
    assert guest.run("print('after'); runtime.last_output.text").status in ("success", "error")
    assert guest.check("print('still here')").stdout == b"still here\n"


def test_forked_child_has_no_outputs(guest: Guest) -> None:
    guest.check("print(1)")
    code = "import os, sys\nif os.fork() == 0:\n    try: runtime.last_output\n    except MCPError as e: print(e, flush=True)\n    os._exit(0)\nos.wait()[1]"
    assert guest.check(code).stdout == b"outputs of earlier runs are not kept here\n"


def test_rings_are_small_where_memory_is_small() -> None:
    assert capacities(None) == (12 << 20, 4 << 20) == capacities(512 << 20) == capacities(1 << 40)
    assert sum(capacities(32 << 20)) == 1 << 20
    assert min(capacities(1)) == 64 << 10


@pytest.mark.parametrize("seed", range(20))
def test_ring_keeps_the_latest_bytes(seed: int) -> None:
    import random

    chance = random.Random(seed)
    record = Record(1)
    index = Index(record.descriptor)
    whole = (bytearray(), bytearray())
    for cell in range(1, chance.randrange(2, 80)):
        starts = len(whole[0]), len(whole[1])
        for _ in range(chance.randrange(0, 5)):
            stream = chance.randrange(2)
            data = chance.randbytes(chance.choice((1, 1000, 70_000)))
            record.rings[stream].write(data)
            whole[stream].extend(data)
        record.end_run(cell, ((starts[0], 0), (starts[1], 0)))
    runs = index.runs()
    assert list(runs) == list(range(max(1, cell - 62), cell + 1))
    for spans in runs.values():
        for stream, span in enumerate(spans):
            oldest = span.ring.oldest()
            assert oldest == max(0, len(whole[stream]) - capacities(1)[stream])
            first = min(span.end, max(span.start, oldest))
            assert span.ring.read(first, span.end) == whole[stream][first : span.end]
