"""The folder `out`: which files are listed after a run, and which can be read."""

import base64
from pathlib import Path
from typing import Any

import pytest

from guest import Frame, Guest


def _read(guest: Guest, path: object, offset: object = 0, size: object = 1 << 20) -> Frame:
    guest.send(type="read_file", call=7, path=path, offset=offset, bytes=size)
    while (frame := guest.next())["type"] != "file":
        pass
    assert frame["call"] == 7
    return frame


def _files(outcome: Any) -> dict[str, tuple[int, bool]]:
    return {file["path"]: (file["size"], file["new"]) for file in outcome.done.get("files", [])}


def test_new_and_changed_files_are_listed(guest: Guest) -> None:
    assert "files" not in guest.check("import os, time\nos.mkdir('out')").done
    outcome = guest.check("open('out/a.txt', 'w').write('abc'); os.makedirs('out/sub'); open('out/sub/b', 'w').close()")
    assert _files(outcome) == {"a.txt": (3, True), "sub/b": (0, True)}
    assert _files(guest.check("None")) == {"a.txt": (3, False), "sub/b": (0, False)}
    outcome = guest.check("os.remove('out/sub/b')\nwith open('out/a.txt', 'a') as f: f.write('d');")
    assert _files(outcome) == {"a.txt": (4, True)}
    assert "files" not in guest.check("os.remove('out/a.txt')").done


def test_files_are_read_in_pieces_also_while_code_runs(guest: Guest) -> None:
    guest.check("import os\nos.mkdir('out')\nopen('out/é x.bin', 'wb').write(bytes(range(256)) * 10);")
    frame = _read(guest, "é x.bin", 250, 10)
    assert (base64.b64decode(frame["base64"]), frame["size"]) == (bytes([*range(250, 256), *range(4)]), 2560)
    assert base64.b64decode(_read(guest, "é x.bin", 9999)["base64"]) == b""
    guest.execute("import time\nprint('on', flush=True)\nwhile not os.path.exists('stop'): time.sleep(0.001)")
    guest.until_output(b"on")
    assert _read(guest, "é x.bin", 0, 2)["size"] == 2560
    guest.interrupt()
    guest.collect()


@pytest.mark.parametrize(
    "path",
    ["..", "../secret", "/etc/passwd", "link", "linked/passwd", "sub/../../secret", "./a", "a/", "", "a\0b", "missing", "pipe", "sub", 5, None, ["a"], "x" * 5000, "\ud800"],
)
def test_paths_outside_the_folder_are_not_read(shared: Guest, path: object) -> None:
    shared.check(
        "import os\nif not os.path.exists('out'):\n    os.makedirs('out/sub'); open('out/a', 'w').close(); open('secret', 'w').write('s')\n"
        "    os.symlink('/etc/passwd', 'out/link'); os.symlink('/etc', 'out/linked'); os.mkfifo('out/pipe')"
    )
    frame = _read(shared, path)
    assert "error" in frame and "base64" not in frame


@pytest.mark.parametrize(("offset", "size"), [(-1, 1), (0, -1), (1 << 70, 1), ("0", 1), (0, None)])
def test_invalid_pieces_are_errors(shared: Guest, offset: object, size: object) -> None:
    shared.check("import os\nos.makedirs('out', exist_ok=True); open('out/odd', 'w').write('odd');")
    frame = _read(shared, "odd", offset, size)
    assert frame.get("base64", "") == ""


def test_links_and_special_files_are_not_listed(guest: Guest) -> None:
    outcome = guest.check("import os\nos.mkdir('out'); os.symlink('/etc/passwd', 'out/l'); os.symlink('/etc', 'out/d'); os.mkfifo('out/p')\nopen(b'out/\\xff', 'w').close()")
    assert "files" not in outcome.done
    outcome = guest.check("import shutil; shutil.rmtree('out'); os.symlink('/etc', 'out')")
    assert "files" not in outcome.done
    assert "error" in _read(guest, "passwd")


def test_files_over_the_limit_are_counted(guest: Guest) -> None:
    outcome = guest.check("import os\nos.mkdir('out')\nfor n in range(150): open(f'out/{n:03}', 'w').close()")
    assert (len(outcome.done["files"]), outcome.done["more_files"]) == (100, 50)
    # Files that were left out do not count as new again; new files are listed before old ones.
    assert set(_files(guest.check("None")).values()) == {(0, False)}
    outcome = guest.check("open('out/007', 'a').write('x'); open('out/zz', 'w').close()")
    listed = _files(outcome)
    assert (len(listed), outcome.done["more_files"]) == (100, 0)
    assert {path for path, (_, new) in listed.items() if new} == {"007", "zz"}
    deep = guest.check("os.makedirs('out/' + '/'.join('d' * 20))\nNone")
    assert len(deep.done["files"]) == 100


def test_folder_is_where_the_session_started(guest: Guest, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    outcome = guest.check("import os\nos.chdir('/')\nNone")
    (tmp_path / "out" / "late").write_text("x")
    assert "files" not in outcome.done
    assert _files(guest.check("None")) == {"late": (1, True)}
