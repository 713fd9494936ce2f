"""`show`, and what a bare last expression shows: pictures and documents go to the host as `display` frames, text is
printed, and what is too large for an answer becomes a file in `out`."""

from _mcp_guest.state import files
from _mcp_guest.display.budget import allowance
from _mcp_guest.frames import encode
from _mcp_guest.lazy import load
from _mcp_guest.display.preview import cut_text, keep, text_of

__all__ = ["finish", "image_type", "result", "show"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Shown = tuple[str, "str | bytes"]

ENDINGS = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/svg+xml": "svg",
    "text/html": "html",
}
BLANKS = "\ufeff \t\r\n"
# In the order of preference. The text ones that come before HTML are printed.
METHODS = (
    ("image/png", "_repr_png_"),
    ("image/jpeg", "_repr_jpeg_"),
    ("image/gif", "_repr_gif_"),
    ("image/webp", "_repr_webp_"),
    ("image/svg+xml", "_repr_svg_"),
    ("text/markdown", "_repr_markdown_"),
    ("application/json", "_repr_json_"),
    ("text/latex", "_repr_latex_"),
    ("text/html", "_repr_html_"),
)


def show(*values: object) -> None:
    """Shows each value as best it can be: as a picture, a document, or text."""
    for value in values:
        found = _named(value) or rich(value)
        if found is not None:
            _display(*found)
        elif issubclass(type(value), (list, tuple)) and any(_is_blob(item) for item in value):  # type: ignore[attr-defined]
            show(*value)  # type: ignore[misc]
        elif issubclass(type(value), str):
            print(value)
        else:
            print(text_of(value, allowance.text_bytes, lambda value=value: _name(value)))


def result(value: object, limit: int, namespace: "dict[str, Any]") -> str | None:
    """The text that stands for the value of a last expression; none where it has been shown in another way."""
    if type(value).__name__ == "coroutine" and _is_new(value):
        name = value.__qualname__  # type: ignore[attr-defined]
        return f"coroutine {name}(...), and nothing has run yet: write await {name}(...)"
    found = rich(value)
    if found is not None:
        mime, data = found
        if isinstance(data, str) and mime not in ENDINGS:
            if len(data) <= limit:
                return data
            what = f"{type(value).__qualname__} as {mime}"
            return cut_text(data, what, limit, keep(namespace, value, allowance.cell))
        # Markup is for browsers: a `repr` that says something is better.
        if mime != "text/html" or type(value).__repr__ is object.__repr__:
            _display(mime, data)
            return None
    return text_of(value, limit, lambda: keep(namespace, value, allowance.cell))


def _is_new(coroutine: "Any") -> bool:
    """It was made and never awaited."""
    try:
        return coroutine.cr_frame is not None and not (coroutine.cr_running or coroutine.cr_suspended)
    except AttributeError:
        return False  # called like that by somebody else


def finish() -> None:
    """The run is over: figures that it left open are shown, once."""
    from sys import modules, stderr

    helpers = modules.get("matplotlib._pylab_helpers")
    if helpers is None:
        return
    for manager in helpers.Gcf.get_all_fig_managers():
        figure = manager.canvas.figure
        try:
            if figure.axes or figure.texts or figure.images:
                show(figure)
        except Exception as error:
            print(f"a figure could not be drawn: {type(error).__name__}: {error}", file=stderr)
        helpers.Gcf.destroy_fig(figure)


def rich(value: object) -> "Shown | None":
    """The best of its forms other than `repr`, if it has any."""
    # Not `isinstance`, which asks the value itself: a proxy without its object raises then.
    kind = type(value)
    if issubclass(kind, (bytes, bytearray, memoryview)):
        return _of_bytes(value)  # type: ignore[arg-type]
    if kind in (str, int, float, list, dict, tuple, set, bool) or issubclass(kind, type):
        return None
    if _comes_from(kind, "matplotlib.figure", "Figure"):
        return "image/png", _drawn(value)
    if _comes_from(kind, "pandas", "DataFrame") or _comes_from(kind, "polars", "DataFrame"):
        table = _attempt(f"{kind.__qualname__} as Markdown", lambda: load("_mcp_guest.display.tables").markdown(value))
        if table is not None:
            return "text/markdown", str(table)
    bundle = _bundle(value)
    for mime, method in METHODS:
        data = bundle.get(mime)
        if data is None and callable(getattr(kind, method, None)):
            data = _form(value, method)
        shown = _checked(mime, data[0] if isinstance(data, tuple) and data else data)
        if shown is not None:
            return mime, shown
    return None


def _form(value: object, method: str, **arguments: object) -> object:
    form = _attempt(f"{type(value).__qualname__}.{method}", lambda: getattr(value, method)(**arguments))
    if hasattr(form, "__await__"):
        getattr(form, "close", int)()
        return None
    return form


def _attempt(what: str, form: "Callable[[], object]") -> object:
    """A form that fails is no failure of the run: it is told of, and another one has to do."""
    try:
        return form()
    except Exception as error:
        from sys import stderr

        print(f"{what} raised {type(error).__name__}: {error}", file=stderr)
        return None


def image_type(data: bytes) -> str | None:
    """Of what kind a picture is, by its first bytes."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def _of_bytes(value: "bytes | bytearray | memoryview") -> "Shown | None":
    mime = image_type(bytes(value[:16]))
    if mime is not None:
        return mime, bytes(value)
    if _is_blob(value) and value.mime == "image/svg+xml":  # type: ignore[union-attr]
        return "image/svg+xml", bytes(value).decode("utf-8", "replace")
    return None


def _bundle(value: object) -> "dict[str, Any]":
    if not callable(getattr(type(value), "_repr_mimebundle_", None)):
        return {}
    bundle = _form(value, "_repr_mimebundle_", include=None, exclude=None)
    bundle = bundle[0] if isinstance(bundle, tuple) and bundle else bundle
    return bundle if isinstance(bundle, dict) else {}


def _checked(mime: str, data: object) -> "str | bytes | None":
    """What an object said it looks like, where that can be."""
    if data is None:
        return None
    if mime == "application/json":
        try:
            return str(load("json").dumps(data, ensure_ascii=False, indent=2))
        except (TypeError, ValueError, RecursionError):
            return None
    if not _is_image(mime):
        return data if isinstance(data, str) else None
    if isinstance(data, str):
        try:
            data = load("binascii").a2b_base64(data)
        except ValueError:
            return None
    if not isinstance(data, (bytes, bytearray)) or image_type(bytes(data[:16])) != mime:
        return None
    return bytes(data)


def _named(value: object) -> "Shown | None":
    """A file that is a picture or a document, `show(path)` or its name; and a text that is a document itself."""
    is_path = callable(getattr(type(value), "__fspath__", None))
    if issubclass(type(value), str):
        assert isinstance(value, str)
        if value[:4096].lstrip(BLANKS).startswith("<"):
            return _document(value)
        if value.rpartition(".")[2].lower() not in (*ENDINGS.values(), "jpeg", "htm"):
            return None
    elif not is_path:
        return None
    try:
        with load("_io").open(value, "rb") as file:
            data = file.read(files.LIMIT + 1)
    except (OSError, ValueError):
        return None
    if len(data) > files.LIMIT:
        return None
    mime = image_type(data)
    if mime is not None:
        return mime, data
    return _document(data.decode("utf-8", "replace"))


def _document(text: str) -> "Shown | None":
    """Text that is SVG or a page of HTML by how it begins, behind comments and declarations."""
    start = text[:4096].lstrip(BLANKS).lower()
    while start.startswith(("<?", "<!--", "<!doctype svg")):
        end = "-->" if start.startswith("<!--") else ">"
        start = start.partition(end)[2].lstrip()
    first = start.replace("/", " ").replace(">", " ").split(None, 1)[:1]
    if first == ["<svg"]:
        return "image/svg+xml", text
    return ("text/html", text) if first == ["<html"] or start.startswith("<!doctype html") else None


def _display(mime: str, data: "str | bytes") -> None:
    if mime not in ENDINGS:
        print(data)
        return
    size = len(data) if isinstance(data, bytes) else len(data.encode("utf-8", "replace"))
    if not allowance.take(size, is_text=isinstance(data, str)):
        _save(mime, data, size)
        return
    content: dict[str, object] = {"data": data}
    if isinstance(data, bytes):
        content = {"base64": load("binascii").b2a_base64(data, newline=False).decode()}
    load("_mcp_guest.servers.rpc").calls().tell(encode({"type": "display", "id": allowance.run, "mime": mime, **content}))


def _save(mime: str, data: "str | bytes", size: int) -> None:
    allowance.saved += 1
    name = f"cell-{allowance.cell}-{allowance.saved}.{ENDINGS[mime]}"
    files.save(name, data if isinstance(data, bytes) else data.encode("utf-8", "replace"))
    print(f"({mime} of {size:,} bytes, more than an answer can show; saved as out/{name})")


def _drawn(figure: "Any") -> bytes:
    """A matplotlib figure as PNG. It is done with: what is shown once need not be shown at the end again."""
    from sys import modules, stderr
    from warnings import catch_warnings

    buffer = load("_io").BytesIO()
    # Where in the runtime it was drawn says nothing to the code's author.
    with catch_warnings(record=True) as caught:
        figure.savefig(buffer, format="png", bbox_inches="tight")
    for text in dict.fromkeys(f"{warning.category.__name__}: {warning.message}" for warning in caught or ()):
        print(text, file=stderr)
    helpers = modules.get("matplotlib._pylab_helpers")
    if helpers is not None:
        helpers.Gcf.destroy_fig(figure)
    return bytes(buffer.getvalue())


def _comes_from(kind: type, package: str, name: str) -> bool:
    return any(
        base.__name__ == name and (base.__module__ == package or base.__module__.startswith(package + "."))
        for base in kind.__mro__
    )


def _is_blob(value: object) -> bool:
    return issubclass(type(value), load("_mcp_guest.servers.results").Blob)


def _is_image(mime: str) -> bool:
    return mime.startswith("image/") and mime != "image/svg+xml"


def _name(value: object) -> str:
    from sys import modules

    return keep(vars(modules["__main__"]), value, allowance.cell)
