"""`show`, and the value of a bare last expression.

Pictures and documents go to the host as `display` frames, text is printed, and what is too large
for an answer becomes a file in `out`.
"""

from _mcp_guest.display.preview import bind_name, cut_text, text_of
from _mcp_guest.frames import encode
from _mcp_guest.lazy import lazy
from _mcp_guest.session import session
from _mcp_guest.state.files import PIECE_BYTES

__all__ = ["image_type", "result", "show", "show_open_figures"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _io
    import binascii
    from collections.abc import Callable
    import json
    from typing import Any

    from _mcp_guest.display import tables
    from _mcp_guest.servers import results

    Shown = tuple[str, str | bytes]
else:
    _io = lazy("_io")
    binascii = lazy("binascii")
    json = lazy("json")
    tables = lazy("_mcp_guest.display.tables")
    results = lazy("_mcp_guest.servers.results")

ENDINGS = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/svg+xml": "svg",
    "text/html": "html",
}
# The containers whose pictures the last expression shows, if they have no more items than this; and
# what is not a picture.
RESULTS = ("DictResult", "ListResult", "TextResult")
MOST_ITEMS = 100
PLAIN = (str, int, float, bool, type(None), list, dict, tuple, set)
# Base64 is replaced in structured content this deep.
REPLACED_DEPTH = 20
BLANKS = "\ufeff \t\r\n"
# In order of preference. The text types before HTML are printed.
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


def show(*values: "Any") -> None:
    """Shows each value as well as possible: as a picture, a document, or text."""
    for value in values:
        found = _file_or_document(value) or rich_form(value)
        if found is not None:
            _display(*found)
        elif issubclass(type(value), (list, tuple)) and any(_is_blob(item) for item in value):
            show(*value)
        elif came := _pictures_beside(value):
            show(*came)
            _print(_without_base64(value, came))
        elif issubclass(type(value), str):
            print(value)
        else:
            _print(value)


def _print(value: object) -> None:
    print(text_of(value, session.display_budget.text_bytes, lambda: _variable(value)))


def result(value: "Any", limit: int, namespace: "dict[str, Any]") -> str | None:
    """The text for the value of a last expression; None where it has been shown in another way."""
    if type(value).__name__ == "coroutine" and _is_new(value):
        name = value.__qualname__
        return f"coroutine {name}(...), and nothing has run yet: write await {name}(...)"
    found = rich_form(value)
    if found is not None:
        mime, data = found
        if isinstance(data, str) and mime not in ENDINGS:
            if len(data) <= limit:
                return data
            what = f"{type(value).__qualname__} as {mime}"
            return cut_text(data, what, limit, bind_name(namespace, value, session.cell))
        # HTML is for browsers: the class's own `repr` is better.
        has_own_repr = getattr(type(value), "__repr__", None) is not object.__repr__
        if mime != "text/html" or not has_own_repr:
            _display(mime, data)
            return None
    shown = value
    if type(value) in (list, tuple, dict) or type(value).__name__ in RESULTS:
        came = _pictures_beside(value)
        for picture in came or _pictures_inside(value):
            _show_inside(picture)
        shown = _without_base64(value, came) if came else value
    return text_of(shown, limit, lambda: bind_name(namespace, value, session.cell))


def _pictures_beside(value: object) -> "list[Any]":
    """The pictures in the content of a tool's result whose value is its structured content."""
    return results.pictures(value) if type(value).__name__ in RESULTS and hasattr(value, "raw") else []


def _pictures_inside(value: "Any") -> "list[Any]":
    """The pictures directly in a list, a tuple or the values of a dict."""
    if issubclass(type(value), str):
        return []
    items = value.values() if issubclass(type(value), dict) else value
    return [item for item in items if _is_picture(item)] if len(items) <= MOST_ITEMS else []


def _is_picture(item: "Any") -> bool:
    kind = type(item)
    if issubclass(kind, bytes):
        return image_type(item[:16]) is not None
    if kind in PLAIN or issubclass(kind, type):
        return False
    return callable(getattr(kind, "_repr_png_", None)) or _comes_from(kind, "matplotlib.figure", "Figure")


def _show_inside(item: object) -> None:
    found = rich_form(item)
    if found is not None and _is_image(found[0]):
        _display(*found)


def _without_base64(value: "Any", shown: "list[Any]") -> "Any":
    """The value with short descriptions in place of the texts that the shown pictures came from."""
    texts = {picture.raw["data"]: picture for picture in shown}

    def replaced(value: "Any", depth: int) -> "Any":
        if isinstance(value, str):
            return texts.get(value, value)
        if depth and isinstance(value, dict):
            return {key: replaced(item, depth - 1) for key, item in value.items()}
        return [replaced(item, depth - 1) for item in value] if depth and isinstance(value, list) else value

    return replaced(value, REPLACED_DEPTH)


def _is_new(coroutine: "Any") -> bool:
    """Whether the coroutine was made and never awaited."""
    try:
        return coroutine.cr_frame is not None and not (coroutine.cr_running or coroutine.cr_suspended)
    except AttributeError:
        return False  # Another class with this name.


def show_open_figures() -> None:
    """Shows and closes the figures that are open, for example at the end of a run."""
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


def rich_form(value: "Any") -> "Shown | None":
    """The best form of the value other than `repr`, if it has any."""
    # Not `isinstance`: it asks the value itself, and a proxy without its object raises.
    kind = type(value)
    if issubclass(kind, (bytes, bytearray, memoryview)):
        return _of_bytes(value)
    if kind in (str, int, float, list, dict, tuple, set, bool) or issubclass(kind, type):
        return None
    if _comes_from(kind, "matplotlib.figure", "Figure"):
        return "image/png", _drawn(value)
    if _comes_from(kind, "pandas", "DataFrame") or _comes_from(kind, "polars", "DataFrame"):
        table = _attempt(f"{kind.__qualname__} as Markdown", lambda: tables.markdown(value))
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
    """A form that fails is reported and does not fail the run: another form is used."""
    try:
        return form()
    except Exception as error:
        from sys import stderr

        print(f"{what} raised {type(error).__name__}: {error}", file=stderr)
        return None


def image_type(data: bytes) -> str | None:
    """The type of a picture, by its first bytes."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def _of_bytes(value: "Any") -> "Shown | None":
    mime = image_type(bytes(value[:16]))
    if mime is not None:
        return mime, bytes(value)
    if _is_blob(value) and value.mime == "image/svg+xml":
        return "image/svg+xml", bytes(value).decode("utf-8", "replace")
    return None


def _bundle(value: object) -> "dict[str, Any]":
    if not callable(getattr(type(value), "_repr_mimebundle_", None)):
        return {}
    bundle = _form(value, "_repr_mimebundle_", include=None, exclude=None)
    bundle = bundle[0] if isinstance(bundle, tuple) and bundle else bundle
    return bundle if isinstance(bundle, dict) else {}


def _checked(mime: str, data: object) -> "str | bytes | None":
    """The form that an object returned, if it is valid for the type."""
    if data is None:
        return None
    if mime == "application/json":
        try:
            return json.dumps(data, ensure_ascii=False, indent=2)
        except (TypeError, ValueError, RecursionError):
            return None
    if not _is_image(mime):
        return data if isinstance(data, str) else None
    if isinstance(data, str):
        try:
            data = binascii.a2b_base64(data)
        except ValueError:
            return None
    if not isinstance(data, (bytes, bytearray)) or image_type(bytes(data[:16])) != mime:
        return None
    return bytes(data)


def _file_or_document(value: "Any") -> "Shown | None":
    """A picture or document in a file, given by its path or name; or a text that is a document
    itself."""
    is_path = callable(getattr(type(value), "__fspath__", None))
    if issubclass(type(value), str):
        if value[:4096].lstrip(BLANKS).startswith("<"):
            return _document(value)
        if value.rpartition(".")[2].lower() not in (*ENDINGS.values(), "jpeg", "htm"):
            return None
    elif not is_path:
        return None
    try:
        with _io.open(value, "rb") as file:
            data = file.read(PIECE_BYTES + 1)
    except (OSError, ValueError):
        return None
    if len(data) > PIECE_BYTES:
        return None
    mime = image_type(data)
    if mime is not None:
        return mime, data
    return _document(data.decode("utf-8", "replace"))


def _document(text: str) -> "Shown | None":
    """Text that starts, after comments and declarations, as SVG or as an HTML page."""
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
    budget = session.display_budget
    if not budget.take(size, is_text=isinstance(data, str)):
        _save(mime, data, size)
        return
    content: dict[str, object] = {"data": data}
    if isinstance(data, bytes):
        content = {"base64": binascii.b2a_base64(data, newline=False).decode()}
    session.calls.notify(encode({"type": "display", "id": budget.run, "mime": mime, **content}))


def _save(mime: str, data: "str | bytes", size: int) -> None:
    budget = session.display_budget
    budget.saved += 1
    name = f"cell-{session.cell}-{budget.saved}.{ENDINGS[mime]}"
    session.output_folder.save(name, data if isinstance(data, bytes) else data.encode("utf-8", "replace"))
    print(f"({mime} of {size:,} bytes, more than an answer can show; saved as out/{name})")


def _drawn(figure: "Any") -> bytes:
    """A matplotlib figure as PNG. The figure is closed, so that it is not shown again at the end of
    the run."""
    from sys import modules, stderr
    from warnings import catch_warnings

    buffer = _io.BytesIO()
    # The lines of the runtime in a warning would mean nothing to the author of the code.
    with catch_warnings(record=True) as caught:
        figure.savefig(buffer, format="png", bbox_inches="tight")
    for text in dict.fromkeys(f"{warning.category.__name__}: {warning.message}" for warning in caught or ()):
        print(text, file=stderr)
    helpers = modules.get("matplotlib._pylab_helpers")
    if helpers is not None:
        helpers.Gcf.destroy_fig(figure)
    return buffer.getvalue()


def _comes_from(kind: type, package: str, name: str) -> bool:
    return any(
        base.__name__ == name and (base.__module__ == package or base.__module__.startswith(package + "."))
        for base in kind.__mro__
    )


def _is_blob(value: object) -> bool:
    return issubclass(type(value), results.Blob)


def _is_image(mime: str) -> bool:
    return mime.startswith("image/") and mime != "image/svg+xml"


def _variable(value: object) -> str:
    from sys import modules

    return bind_name(vars(modules["__main__"]), value, session.cell)
