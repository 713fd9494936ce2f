"""Makes the process look like an ordinary Python to user code: its streams, `__main__`, builtins, path and warnings."""

import _codecs
import _io
import _warnings
import builtins
import posix
import sys

from _mcp_guest.worker.channel import aside, identity
from _mcp_guest.lazy import load
import mcp.runtime

__all__ = ["kept", "offered", "prepare", "renew_streams", "spaces", "table"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

OUTPUT_ERRORS = "mcp-output"
FORK_WARNING = "multi-threaded, use of fork"
INPUT_HINT = "input() has nobody to ask here: put the value into the code"


class Servers(dict):  # type: ignore[type-arg]
    """The loaded servers by their names."""

    def __missing__(self, name: object) -> "Any":
        return load("_mcp_guest.servers.registry").look_up(str(name))


# What user code knows as `mcp_servers`.
table = Servers()


class _Kept:
    """What came from the host and is not taken up yet, whether code has to be looked through for saved tools, and
    whether some of these speak of servers."""

    arrived = False
    tools = False
    speaking = False
    # Names of servers that could be loaded, as the last frame had them.
    known: "list[Any]" = []


kept = _Kept()
# Namespaces of saved tools, which get the servers too.
spaces: "list[dict[str, Any]]" = []


def offered() -> "dict[str, Any]":
    """What is there in every namespace."""
    names = {name: getattr(mcp.runtime, name) for name in mcp.runtime.__all__}
    return {"mcp": mcp, "runtime": mcp.runtime, "mcp_servers": table, **names}


def prepare() -> "dict[str, Any]":
    """Returns the namespace that cells run in."""
    _codecs.register_error(OUTPUT_ERRORS, _output_errors)
    _open_streams()
    _warnings.filters.insert(0, ("ignore", _ForkWarning(), DeprecationWarning, None, 0))  # type: ignore[arg-type]
    # Of what is dropped within the runtime; a last expression that was not awaited has been told about.
    _warnings.filters.insert(0, ("ignore", None, RuntimeWarning, "_mcp_guest.worker.execution", 0))
    sys.dont_write_bytecode = True
    sys.argv = [""]
    sys.path.insert(0, "")
    builtins.input = _no_input
    _add_site_builtins()
    sys.meta_path.insert(0, _Adapted())
    main = type(sys)("__main__")
    vars(main).update(offered(), __builtins__=builtins, LOADED_MCP_SERVERS=())
    # As notebooks call it.
    main.display = mcp.runtime.show  # type: ignore[attr-defined]
    sys.modules["__main__"] = main
    return main.__dict__


class _Output:
    """`sys.stdout` or `sys.stderr`, which code may close, replace or lead elsewhere: every run begins with its own."""

    def __init__(self, name: str, descriptor: int, errors: str) -> None:
        self.name, self.descriptor, self.errors = name, descriptor, errors
        self.spare = aside(posix.dup(descriptor))
        self.identity = identity(descriptor)
        self.stream = self._open()

    def _open(self) -> _io.TextIOWrapper:
        raw = _io.FileIO(self.descriptor, "w", closefd=False)
        raw.name = f"<{self.name}>"
        stream = _io.TextIOWrapper(_io.BufferedWriter(raw), "utf-8", self.errors, line_buffering=True)
        setattr(sys, self.name, stream)
        setattr(sys, f"__{self.name}__", stream)
        return stream

    def renew(self) -> None:
        """A run begins."""
        try:
            if identity(self.descriptor) != self.identity:
                raise OSError
        except OSError:
            self._reconnect()
        if getattr(sys, self.name, None) is not self.stream:
            # A wrapper that goes with that closes what it was made around.
            setattr(sys, self.name, self.stream)
        try:
            usable = not self.stream.closed
        except ValueError:
            usable = False  # detached
        if not usable:
            self.stream = self._open()

    def _reconnect(self) -> None:
        try:
            if identity(self.spare) == self.identity:
                posix.dup2(self.spare, self.descriptor)
        except OSError:
            pass  # that is closed as well: there is no way back

    def forget(self) -> None:
        """In a forked child."""
        try:
            posix.close(self.spare)
        except OSError:
            pass


outputs: list[_Output] = []


def renew_streams() -> None:
    """At the beginning of a run: output goes where it is expected, and what is opened next is no standard stream."""
    try:
        posix.fstat(0)
    except OSError:
        posix.open("/dev/null", posix.O_RDONLY)  # takes the lowest number
    for output in outputs:
        output.renew()


def _open_streams() -> None:
    """Anew: those of the start were made for what the descriptors were then."""
    source = _io.BufferedReader(_io.FileIO(0, "r", closefd=False))
    sys.stdin = sys.__stdin__ = _io.TextIOWrapper(source, "utf-8", "surrogateescape")  # type: ignore[misc]
    outputs[:] = _Output("stdout", 1, OUTPUT_ERRORS), _Output("stderr", 2, "backslashreplace")
    for output in outputs:
        posix.register_at_fork(after_in_child=output.forget)


def _output_errors(error: UnicodeError) -> tuple[str | bytes, int]:
    """File names with stray bytes come out as those bytes, as in ordinary Python; any other surrogate as an escape."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    out = bytearray()
    for character in error.object[error.start : error.end]:
        number = ord(character)
        out += bytes((number - 0xDC00,)) if 0xDC80 <= number <= 0xDCFF else f"\\u{number:04x}".encode()
    return bytes(out), error.end


def _fork_by_default(context: "Any") -> None:
    """No other kind of child knows what cells define."""
    context._default_context = context.DefaultContext(context._concrete_contexts["fork"])


def _show_figures(pyplot: "Any") -> None:
    """`plt.show()` shows the open figures, as it does where there is a display."""
    pyplot.show = lambda *_arguments, **_options: load("_mcp_guest.display.display").finish()


class _Adapted:
    """Finds modules that need a change here to work as elsewhere, and makes it when they are imported."""

    CHANGES = {"multiprocessing.context": _fork_by_default, "matplotlib.pyplot": _show_figures}

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        change = self.CHANGES.get(name)
        if change is None:
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_change(module: "Any") -> None:
            execute(module)
            change(module)

        spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec


class _ForkWarning:
    """A message pattern for the warning about fork with threads that fits while no thread but the reader runs."""

    def match(self, text: str) -> bool:
        if FORK_WARNING not in text:
            return False
        try:
            return len(posix.listdir("/proc/self/task")) <= 2
        except OSError:
            return False


def _no_input(prompt: object = "", /) -> "NoReturn":
    print(prompt, end="", flush=True)
    raise EOFError(INPUT_HINT)


class _Quitter:
    """`exit` and `quit` as the `site` module makes them, which is not loaded here."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Use {self.name}() to end this run; variables are kept."

    def __call__(self, code: "Any" = None) -> "NoReturn":
        raise SystemExit(code)


class _LazyBuiltin:
    """`help`, `copyright` and the like: made when first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _real(self) -> "Any":
        import _sitebuiltins

        if self._name == "help":
            return _sitebuiltins._Helper()
        return _sitebuiltins._Printer(
            self._name, getattr(sys, self._name, "See https://docs.python.org/3/license.html")
        )

    def __repr__(self) -> str:
        return repr(self._real())

    def __call__(self, *arguments: object) -> object:
        return self._real()(*arguments)


def _add_site_builtins() -> None:
    for name in ("exit", "quit"):
        setattr(builtins, name, _Quitter(name))
    for name in ("copyright", "credits", "help", "license"):
        setattr(builtins, name, _LazyBuiltin(name))
