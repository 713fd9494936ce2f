"""What `show` and last expressions show: pictures, documents, tables, and objects with a rich
form."""

import base64
import json
from pathlib import Path
import struct
import sys
import sysconfig
import zlib

import pytest

from guest import Guest, command
from host import host_at
from servers import S


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


PNG = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 1, 8, 2, 0, 0, 0)) + _chunk(b"IDAT", zlib.compress(b"\0" + b"\xff\0\0" * 2)) + _chunk(b"IEND", b"")
PICTURES = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0rest",
    "image/gif": b"GIF89arest",
    "image/webp": b"RIFF\0\0\0\0WEBPrest",
}


@pytest.mark.parametrize("mime", PICTURES)
@pytest.mark.parametrize("code", ["show(data)", "data", "display(bytearray(data))", "memoryview(data)", "runtime.show(data)"])
def test_bytes_of_a_picture_are_shown_as_a_picture(shared: Guest, mime: str, code: str) -> None:
    outcome = shared.check(f"data = {PICTURES[mime]!r}\n{code}")
    assert outcome.displays == [(mime, PICTURES[mime])]
    assert (outcome.result, outcome.stdout) == (None, b"")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("['done', blob]", "['done', <image/png, 70 bytes>]"),
        ("'done', blob", "('done', <image/png, 70 bytes>)"),
        ("{'plot': blob}", "{'plot': <image/png, 70 bytes>}"),
        ("['done', Drawn()]", "['done', Drawn]"),
    ],
)
def test_pictures_within_the_last_expression_are_shown(shared: Guest, value: str, told: str) -> None:
    code = f"from _mcp_guest.servers.results import _blob\nblob = _blob({PNG!r}, 'image/png', None, None)\nclass Drawn:\n    def _repr_png_(self): return bytes(blob)\n    def __repr__(self): return 'Drawn'\n"
    outcome = shared.check(code + value)
    assert outcome.displays == [("image/png", PNG)]
    assert outcome.result == told
    assert shared.check("blob, blob;").displays == []


def test_other_values_are_shown_as_text(shared: Guest) -> None:
    assert shared.check("show('plain', 5, [1], b'bytes')").stdout == b"plain\n5\n[1]\nb'bytes'\n"
    assert shared.check("show(['x'] * 50_000)").stdout.startswith(b"list of 50,000 str (kept as _r")
    assert shared.check("b'no picture'").result == "b'no picture'"
    assert shared.check("show()").frames[-1]["type"] == "execution_done"


FORMS = {
    "_repr_png_": (PNG, "image/png"),
    "_repr_jpeg_": (PICTURES["image/jpeg"], "image/jpeg"),
    "_repr_svg_": ("<svg/>", "image/svg+xml"),
    "_repr_html_": ("<b>x</b>", "text/html"),
}


@pytest.mark.parametrize("method", FORMS)
@pytest.mark.parametrize("code", ["Thing()", "show(Thing())"])
def test_objects_with_a_rich_form_are_shown_in_it(shared: Guest, method: str, code: str) -> None:
    data, mime = FORMS[method]
    outcome = shared.check(f"class Thing:\n    def {method}(self): return {data!r}\n{code}")
    expected = data if isinstance(data, bytes) else str(data).encode()
    assert (outcome.displays, outcome.result) == ([(mime, expected)], None)


def test_text_forms_are_printed(shared: Guest) -> None:
    outcome = shared.check("class M:\n    def _repr_markdown_(self): return '# head'\n    def _repr_html_(self): return '<h1>'\nM()")
    assert (outcome.result, outcome.displays) == ("# head", [])
    assert shared.check("print('before'); show(M()); print('after')").stdout == b"before\n# head\nafter\n"
    outcome = shared.check("class J:\n    def _repr_json_(self): return {'a': [1, float('nan')], 'é': None}\nJ()")
    assert outcome.result == json.dumps({"a": [1, float("nan")], "é": None}, indent=2, ensure_ascii=False)


def test_own_repr_is_preferred_to_html(shared: Guest) -> None:
    code = "class T:\n    def _repr_html_(self): return '<table>'\n    def __repr__(self): return 'T of 3'\nT()"
    assert (shared.check(code).result, shared.check(code).displays) == ("T of 3", [])
    assert shared.check("show(T())").displays == [("text/html", b"<table>")]


def test_mime_bundles_are_shown(shared: Guest) -> None:
    encoded = base64.b64encode(PNG).decode()
    code = f"class B:\n    def _repr_mimebundle_(self, include=None, exclude=None): return ({{'text/plain': 'x', 'image/png': {encoded!r}}}, {{}})\nB()"
    assert shared.check(code).displays == [("image/png", PNG)]


@pytest.mark.parametrize(
    "value",
    ["None", "5", "'text'", "b'no png'", "(b'no png', {})", "[]", "object()", "'!!'"],
)
def test_invalid_forms_are_skipped(shared: Guest, value: str) -> None:
    code = f"class F:\n    def _repr_png_(self): return {value}\n    def __repr__(self): return 'F'\nF()"
    outcome = shared.check(code)
    assert (outcome.result, outcome.displays) == ("F", [])


@pytest.mark.parametrize("code", ["R()", "show(R())"])
def test_form_that_raises_does_not_fail_the_run(shared: Guest, code: str) -> None:
    outcome = shared.check(
        "class R:\n    def _repr_mimebundle_(self, include=None, exclude=None): raise OSError('no dot')\n"
        f"    def _repr_png_(self): raise ValueError('no picture')\n    def _repr_markdown_(self): return '*R*'\n{code}"
    )
    assert (outcome.result or outcome.stdout.decode()).strip() == "*R*"
    assert outcome.stderr == b"R._repr_mimebundle_ raised OSError: no dot\nR._repr_png_ raised ValueError: no picture\n"


def test_broken_data_frame_does_not_fail_the_run(shared: Guest) -> None:
    outcome = shared.check(
        "class DataFrame:\n    __module__ = 'pandas.core.frame'\n    shape = (1, 1)\n    columns = ['a']\n    def __repr__(self): return 'frame'\nDataFrame()"
    )
    assert outcome.result == "frame"
    assert outcome.stderr.startswith(b"DataFrame as Markdown raised ")


def test_awaitable_form_is_skipped(shared: Guest) -> None:
    outcome = shared.check("class W:\n    async def _repr_png_(self): return b''\n    def __repr__(self): return 'W'\nW()")
    assert (outcome.result, outcome.stderr) == ("W", b"")


@pytest.mark.parametrize(
    ("text", "mime"),
    [
        ("<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"),
        ("\ufeff\n<?xml version='1.0'?>\n<!-- <html> -->\n<!DOCTYPE svg PUBLIC '-//W3C//DTD SVG 1.1//EN'>\n<SVG/>", "image/svg+xml"),
        ("<!DOCTYPE html>\n<html><body><svg/></body></html>", "text/html"),
        (" <html lang='en'></html>", "text/html"),
    ],
)
def test_svg_and_html_texts_are_shown_as_documents(guest: Guest, text: str, mime: str) -> None:
    shown = [(mime, text.encode())]
    assert guest.check(f"t = {text!r}\nshow(t)").displays == shown
    ending = "svg" if mime == "image/svg+xml" else "html"
    guest.check(f"with open('page.{ending}', 'w') as f: f.write(t);")
    assert guest.check(f"show('page.{ending}')").displays == shown
    # Only `show` does this: as a last expression, a text stays a text.
    assert guest.check("t").displays == []


@pytest.mark.parametrize("text", ["<b>bold</b>", "<", "<!--", "<?xml", "<svgx", "a <svg/>", "<user@example.com>"])
def test_texts_that_only_look_like_documents_are_printed(shared: Guest, text: str) -> None:
    outcome = shared.check(f"show({text!r})")
    assert (outcome.displays, outcome.stdout) == ([], f"{text}\n".encode())


def test_objects_with_every_attribute_have_no_rich_form(shared: Guest) -> None:
    code = "class Any:\n    def __getattr__(self, name): return lambda *a, **k: b'x'\n    def __repr__(self): return 'Any'\nAny()"
    assert shared.check(code).result == "Any"
    assert shared.check("class K:\n    def _repr_png_(self): return b''\nK").result == "<class '__main__.K'>"


def test_pictures_in_files_are_shown(guest: Guest) -> None:
    guest.check(f"open('a.png', 'wb').write({PNG!r});")
    assert guest.check("from pathlib import Path\nshow(Path('a.png'))").displays == [("image/png", PNG)]
    assert guest.check("show('a.png')").displays == [("image/png", PNG)]
    assert guest.check("show('missing.png')").stdout == b"missing.png\n"
    assert guest.check("Path('a.png')").result == "PosixPath('a.png')"


def test_displays_over_the_budget_become_files(guest: Guest) -> None:
    outcome = guest.check(f"for _ in range(18): show({PNG!r})")
    assert len(outcome.displays) == 16
    assert b"saved as out/cell-1-2.png" in outcome.stdout
    assert [file["path"] for file in outcome.done["files"]] == ["cell-1-1.png", "cell-1-2.png"]
    outcome = guest.check(f"show({PNG!r} + bytes(4_000_000))")
    assert outcome.displays == [] and b"image/png of 4,0" in outcome.stdout
    outcome = guest.check("class S:\n    def _repr_svg_(self): return '<svg>' + ' ' * 20_000 + '</svg>'\nS()")
    assert outcome.displays == [] and outcome.done["files"][-1]["path"] == "cell-3-1.svg"


def test_surrogates_and_control_characters_in_documents(guest: Guest) -> None:
    outcome = guest.check("class H:\n    def _repr_html_(self): return 'a\\ud800\\x1b\\u202eb'\nshow(H())")
    assert outcome.displays == [("text/html", "a\\ud800\x1b\u202eb".encode())]


def test_long_text_forms_are_cut(guest: Guest) -> None:
    code = "class M:\n    def _repr_markdown_(self): return '|' * 40_000_000\nm = M()\nm"
    outcome = guest.check(code, text_bytes=1 << 32)
    assert str(outcome.result).startswith("M as text/markdown of 40,000,000 characters (kept as m)\n|||")
    assert len(str(outcome.result)) < 1 << 20
    assert len(str(guest.check("['\\0'] * 10_000_000", text_bytes=1 << 32).result)) < 1 << 20
    assert len(str(guest.check("'\\0' * 900_000", text_bytes=1 << 32).result)) < 1 << 20
    outcome = guest.check("class H:\n    def _repr_html_(self): return '\\0' * 3_000_000\nshow(H())", text_bytes=1 << 32)
    assert outcome.displays == [] and b"saved as out/" in outcome.stdout


def test_forked_child_cannot_show(guest: Guest) -> None:
    code = f"import os\nif os.fork() == 0:\n    try: show({PNG!r})\n    except MCPError as e: print(e, flush=True)\n    os._exit(0)\nos.wait()[1]"
    outcome = guest.check(code)
    assert outcome.displays == [] and b"main process only" in outcome.stdout


def test_pictures_from_tools_are_shown(tmp_path: Path) -> None:
    host = host_at(tmp_path)
    image = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
    host.handlers["call_tool"] = lambda params: {"content": [{"type": "text", "text": "hi"}, image]}
    outcome = host.check("r = await mcp_s.echo()\nshow(r)", [S])
    assert (outcome.displays, outcome.stdout) == ([("image/png", PNG)], b"hi\n")
    host.handlers["call_tool"] = lambda params: {"content": [image]}
    assert host.check("await mcp_s.echo()").displays == [("image/png", PNG)]
    host.guest.close()


FAKE = """
import sys, types
class Figure:
    axes, texts, images = [1], [], []
    def __init__(self, name): self.name = name
    def savefig(self, target, format, **options): target.write(PNG + self.name.encode())
Figure.__module__ = "matplotlib.figure"
class Gcf:
    open = {}
    @classmethod
    def get_all_fig_managers(cls):
        return [types.SimpleNamespace(canvas=types.SimpleNamespace(figure=f)) for f in list(cls.open.values())]
    @classmethod
    def destroy_fig(cls, figure): cls.open.pop(figure.name, None)
sys.modules["matplotlib._pylab_helpers"] = types.SimpleNamespace(Gcf=Gcf)
def figure(name):
    Gcf.open[name] = Figure(name)
    return Gcf.open[name]
"""


def test_open_figures_are_shown_once(guest: Guest) -> None:
    guest.check(f"PNG = {PNG!r}\n{FAKE}")
    one, two = ("image/png", PNG + b"one"), ("image/png", PNG + b"two")
    assert guest.check("figure('one'); figure('two');").displays == [one, two]
    assert guest.check("None").displays == []
    assert guest.check("figure('two'); figure('one')").displays == [one, two]
    assert guest.check("show(figure('one')); print('x')").displays == [one]
    outcome = guest.run("figure('one'); 1 / 0")
    assert (outcome.displays, outcome.status) == ([one], "error")
    outcome = guest.run("figure('one').savefig = None")
    assert b"a figure could not be drawn: TypeError" in outcome.stderr


def test_figure_warnings_do_not_name_the_runtime(guest: Guest) -> None:
    guest.check(f"PNG = {PNG!r}\n{FAKE}")
    guest.check(
        "import warnings\nclass Wanting(Figure):\n    def savefig(self, target, **options):\n"
        "        for glyph in 'aba': warnings.warn(f'Glyph {glyph} missing', stacklevel=2)\n        super().savefig(target, **options)"
    )
    outcome = guest.run("Wanting('w')")
    assert outcome.displays == [("image/png", PNG + b"w")]
    assert outcome.stderr == b"UserWarning: Glyph a missing\nUserWarning: Glyph b missing\n"
    outcome = guest.run("with warnings.catch_warnings():\n    warnings.simplefilter('ignore')\n    show(Wanting('w'))")
    assert (outcome.stderr, len(outcome.displays)) == (b"", 1)


def _site(package: str) -> str:
    """Code that lets the guest import the tests' packages; its Python must be the tests'."""
    folder = Path(sysconfig.get_path("purelib"))
    if command()[0] != sys.executable or not (folder / package).is_dir():
        pytest.skip(f"the guest's Python has no {package}")
    return f"import sys\nsys.path.append({str(folder)!r})\n"


def test_matplotlib_figures(guest: Guest) -> None:
    guest.check(f"{_site('matplotlib')}import matplotlib.pyplot as plt")
    outcome = guest.check("print('before')\nplt.plot([1, 2, 3]);")
    ((mime, data),) = outcome.displays
    assert mime == "image/png" and data.startswith(b"\x89PNG") and len(data) > 1000
    assert outcome.stderr == b""
    outcome = guest.check("plt.plot([1]); plt.show(); print('between'); plt.plot([2]); plt.show()")
    assert (outcome.stderr, len(outcome.displays)) == (b"", 2)
    outcome = guest.check("figure, axes = plt.subplots()\naxes.plot([3]);\nfigure")
    assert (len(outcome.displays), outcome.result) == (1, None)
    assert guest.check("import subprocess\nsubprocess.run([sys.executable, '-c', 'import sys; sys.path[:] = %r; import matplotlib.pyplot' % (sys.path,)]).returncode").result == "0"


def test_pillow_images(guest: Guest) -> None:
    outcome = guest.check(f"{_site('PIL')}from PIL import Image\nImage.new('RGB', (3, 2), 'red')")
    ((mime, data),) = outcome.displays
    assert mime == "image/png" and data[16:24] == struct.pack(">II", 3, 2)


def test_pandas_data_frames(guest: Guest) -> None:
    guest.check(f"{_site('pandas')}import pandas as pd")
    outcome = guest.check("pd.DataFrame({'a|b': [1, None], 'c\\nd': ['x|y', 'z' * 100], None: [b'\\xff', float('nan')]})")
    assert str(outcome.result).split("\n") == [
        "|  | a\\|b | c d | None |" if "None" in str(outcome.result).split("\n")[0] else "|  | a\\|b | c d | nan |",
        "| --- | --- | --- | --- |",
        "| 0 | 1.0 | x\\|y | b'\\\\xff' |",
        f"| 1 | nan | {'z' * 77}... | nan |",
    ]
    text = str(guest.check("pd.DataFrame([[n] * 40 for n in range(1000)], columns=['same'] * 40)").result)
    assert text.endswith("1,000 rows, 40 columns") and "| 999 | 999 |" in text and len(text.split("\n")) == 25
    assert guest.check("pd.DataFrame()").result == "|  |\n| --- |"
    assert guest.check("print('a'); show(pd.DataFrame({'x': [1]}, index=[('i', 2)]))").stdout.startswith(b"a\n|  | x |\n")
    assert "dtype" in str(guest.check("pd.Series([1, 2])").result)
