"""The manual: made from one table, complete, small, and the same in guest and bridge."""

from ast import literal_eval
from pathlib import Path

from _mcp_guest.api import manual
from guest import Guest

EMBEDDED = Path(__file__).resolve().parents[2] / "bridge/server/src/manual.md"


def test_every_public_name_is_in_the_table_or_left_out_on_purpose(shared: Guest) -> None:
    public = literal_eval(str(shared.check("runtime.__all__").result))
    assert public == sorted(public)
    rows = {name.removesuffix("_sync") for name in public} - set(manual.LEFT_OUT)
    assert rows == set(manual.HELPERS)
    assert set(manual.LEFT_OUT) <= set(public)


def test_docstrings_are_made_from_the_table(shared: Guest) -> None:
    code = "import inspect\n[(n, inspect.isroutine(o), inspect.getdoc(o)) for n in runtime.__all__ if (o := getattr(runtime, n)) is not None]"
    for name, is_function, documented in literal_eval(str(shared.check(code).result)):
        assert documented, name
        if not is_function:
            continue
        call, sentence, _ = manual.HELPERS[name.removesuffix("_sync")]
        if name.endswith("_sync"):
            call = call.removeprefix("await ").replace("(", "_sync(", 1)
        assert documented == f"{sentence}\n\n{call}"


def test_table_names_real_parameters(shared: Guest) -> None:
    code = "import inspect\n[(n, list(inspect.signature(getattr(runtime, n)).parameters)) for n in runtime.__all__ if inspect.isfunction(getattr(runtime, n))]"
    for name, parameters in literal_eval(str(shared.check(code).result)):
        call = manual.HELPERS[name.removesuffix("_sync")][0].removeprefix("await ")
        assert call.startswith(name.removesuffix("_sync") + "("), call
        told = [part.partition("=")[0].strip(" *") for part in call.partition("(")[2].rstrip(")").split(",") if part.strip() not in ("", "*")]
        assert told == [name for name in parameters if name in told], (call, parameters)


def test_manual_is_about_a_kilobyte(shared: Guest) -> None:
    text = _static(shared)
    assert 700 < len(text.encode()) < 1300
    assert [row[0] in text for row in manual.HELPERS.values()] == [row[2] for row in manual.HELPERS.values()]


def test_bridge_embeds_the_same_manual(shared: Guest) -> None:
    text = _static(shared)
    # The bridge's sources are not there when the tests run in the image.
    if EMBEDDED.exists():
        assert EMBEDDED.read_text() == text, "the guest's manual has changed: make manual"


def test_manual_names_installed_packages(guest: Guest, tmp_path: Path) -> None:
    code = "import sys\nsys.prefix = %r\nprint(capability_summary(), end='')"
    assert guest.check(code % str(tmp_path)).stdout.decode() == manual.text()
    site = tmp_path / "lib" / f"python{literal_eval(str(guest.check('sys.version[:4]').result))}" / "site-packages"
    for name in ("six.py", "numpy", "python_dateutil-4.0.0.dist-info", "numpy-2.5.5.dist-info", "Zope.i-1.dist-info"):
        (site / name).mkdir(parents=True)
    told = guest.check(code % str(tmp_path)).stdout.decode()
    assert told == manual.text() + "\nInstalled: Zope.i 1, numpy 2.5.5, python-dateutil 4.0.0.\n"


def _static(guest: Guest) -> str:
    """The manual without the packages that happen to be installed for these tests."""
    return str(literal_eval(str(guest.check("capability_summary()").result))).partition("\nInstalled: ")[0]
