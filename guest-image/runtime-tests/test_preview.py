"""How values are shown: small ones by their repr, large ones by a preview and the name that has all
of it."""

from typing import Any

import pytest

from _mcp_guest.display.preview import is_large, preview, short, text_of
from guest import Guest


def _show(value: object, limit: int = 400) -> str:
    return text_of(value, limit, lambda: "_r3")


def test_small_values_are_their_repr() -> None:
    values: list[object] = [1, "a\nb", [1, {"a": (2,)}], {}, b"\xff", {1, 2}, float("nan"), None, 10**100]
    for value in values:
        assert _show(value) == repr(value)


def test_preview_of_a_list_of_records() -> None:
    rows = [{"id": n, "title": "crash", "state": "open"} for n in range(4812)]
    assert _show(rows).split("\n") == [
        "list of 4,812 dict, keys: id, title, state (kept as _r3)",
        "[0] {'id': 0, 'title': 'crash', 'state': 'open'}",
        "[1] {'id': 1, 'title': 'crash', 'state': 'open'}",
        "[2] {'id': 2, 'title': 'crash', 'state': 'open'}",
        "...",
        "[4810] {'id': 4810, 'title': 'crash', 'state': 'open'}",
        "[4811] {'id': 4811, 'title': 'crash', 'state': 'open'}",
    ]


def test_preview_of_every_kind_of_large_value() -> None:
    assert _show(list(range(10**6))).split("\n")[0] == "list of 1,000,000 int (kept as _r3)"
    assert _show([1, "a"] * 1000).split("\n")[0] == "list of 2,000 mixed items (kept as _r3)"
    assert _show(tuple("ab" * 1000)).split("\n")[1] == "[0] 'a'"
    assert _show(set(range(1000))).split("\n")[0] == "set of 1,000 int (kept as _r3)"
    assert _show({n: str(n) for n in range(1000)}).split("\n")[:2] == ["dict of 1,000 items of str (kept as _r3)", "0: '0'"]
    assert _show({n: str(n) for n in range(1000)}).endswith("...\n999: '999'")
    assert _show("x" * 10_000).split("\n")[2] == "... 9,801 characters left out; _r3[133:] ..."
    assert _show("a\nb\n" * 1000).split("\n")[0] == "str of 4,000 characters, 2,001 lines (kept as _r3)"
    assert _show(bytes(10_000)).split("\n")[0] == "bytes of 10,000 bytes (kept as _r3)"
    assert _show(10**10_000) == "int of 33,220 bits (kept as _r3)"
    assert _show([[0] * 1000] * 3).split("\n")[1] == "[0] list of 1,000 int [0] 0 [1] 0 [2] 0 ... [998] 0 [999] 0"
    assert _show(["x" * 1000]).split("\n")[0] == "list of 1 str (kept as _r3)"


def test_long_repr_of_another_class_is_cut() -> None:
    class Long:
        def __repr__(self) -> str:
            return "Long(" + "x" * 10_000 + ")"

    lines = _show(Long()).split("\n")
    assert lines[0].endswith("Long, its repr of 10,006 characters (kept as _r3)")
    assert lines[2] == "... 9,640 characters left out ..."
    assert lines[3].endswith("x)")


def test_items_whose_repr_raises_are_named() -> None:
    class Bad:
        def __repr__(self) -> str:
            raise ValueError("no")

    text = _show([Bad()] * 1000)
    assert "whose repr raised ValueError" in text
    assert short("a\nb" * 10) == repr("a\nb" * 10)


def test_loops_and_deep_values_are_bounded() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert _show(loop) == "[[...]]"
    deep: object = 0
    for _ in range(100_000):
        deep = [deep]
    assert is_large(deep, 10) or not is_large(deep, 10)
    many: list[object] = [loop] * 1000
    assert preview(many, 400, "x").startswith("list of 1,000 list")


@pytest.mark.parametrize("limit", [0, 1, 50, 200, 8000])
def test_preview_is_about_as_long_as_the_limit(limit: int) -> None:
    values: list[object] = [["x" * 500] * 100, {"k" * 500 + str(n): "v" * 500 for n in range(100)}, "é" * 100_000, b"\xff" * 50_000, [b"\xff" * 9999] * 9]
    for value in values:
        assert len(_show(value, limit)) < 4 * limit + 8000


def test_large_value_stays_bound_to_a_name(guest: Guest) -> None:
    outcome = guest.check("['x'] * 50_000")
    assert str(outcome.result).startswith("list of 50,000 str (kept as _r1)\n[0] 'x'")
    assert guest.check("len(_r1), _ is _r1").result == "(50000, True)"
    assert "(kept as rows)" in str(guest.check("rows = _r1 * 2\nrows").result)
    for number in range(20):
        guest.check(f"[{number}] * 50_000")
    assert guest.check("sorted(int(n[2:]) for n in globals() if n.startswith('_r'))").result == str(list(range(8, 24)))


def test_preview_fits_the_budget_of_the_answer(guest: Guest) -> None:
    assert guest.check("'x' * 9_000").result == f"str of 9,000 characters (kept as _r1)\n{'x' * 2666!r}\n... 5,001 characters left out; _r1[2666:] ...\n{'x' * 1333!r}"
    assert guest.check("'x' * 9_000", text_bytes=40_000).result == repr("x" * 9_000)
    assert guest.check("float('nan')").result == "nan"


def test_line_about_what_is_missing_is_never_cut_off() -> None:
    for value in (b"\xff" * 50_000, "\x1b\n" * 50_000, bytearray(50_000), "\U000e0041" * 50_000):
        text = _show(value, 8000)
        assert len(text) < 8000, len(text)
        head, missing, tail = text.split("\n")[1:]
        shown = len(eval(head)) + len(eval(tail))
        assert missing == f"... {len(value) - shown:,} {'characters' if isinstance(value, str) else 'bytes'} left out; _r3[{len(eval(head))}:] ..."
    records = [{"k" * 100_000: 1}] * 3
    assert len(_show(records, 8000)) < 500


def test_deeply_nested_values_are_fast() -> None:
    shared: object = ["x" * 200]
    for _ in range(40):
        shared = [shared, shared]
    # Only its first items are looked at, however large they are.
    assert _show(shared).split("\n")[1].startswith("[0] list of 2 list [0] list of 2 list [1] list of 2")
    tree: object = {"leaf": "x" * 500}
    for _ in range(40):
        tree = {"left": tree, "right": tree}
    assert _show(tree).startswith("dict of 2 items of dict (kept as _r3)\n'left': dict of 2 items")


def test_lists_that_misbehave_are_shown_by_their_repr() -> None:
    class Closed(list):  # type: ignore[type-arg]
        def __getitem__(self, index: Any) -> Any:
            raise ValueError("closed")

    class Liar(list):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 10**9

    class Mute(str):
        def __len__(self) -> int:
            raise ValueError("mute")

    assert _show(Closed(range(1000))).split("\n")[1].startswith("[0, 1, 2")
    assert _show(Liar([1])) == "[1]"
    assert _show(Mute("x" * 1000)).split("\n")[1].startswith("'xxx")


def test_proxy_without_its_object_is_shown(guest: Guest) -> None:
    unbound = "class Unbound:\n    @property\n    def __class__(self): raise RuntimeError('outside of a request')\n    def __repr__(self): return '<unbound>'\n"
    assert guest.check(f"{unbound}Unbound()").result == "<unbound>"
    assert guest.check("[Unbound()]").result == "[<unbound>]"
    assert guest.check("show(Unbound())").stdout == b"<unbound>\n"
    assert "<weakproxy at " in str(guest.check("import weakref\nproxy = weakref.proxy({1})\nproxy").result)


def test_results_of_tools_are_previewed_as_plain_values() -> None:
    from _mcp_guest.servers.results import unwrap

    rows = unwrap({"structuredContent": {"result": [{"id": n} for n in range(1000)]}}, "s", "t", wrapped=True)
    assert _show(rows).split("\n")[0] == "list of 1,000 dict, keys: id (kept as _r3)"
