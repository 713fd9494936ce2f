"""Makes the process look like an ordinary Python to user code: its streams, `__main__`, builtins,
path and warnings."""

import _codecs
import _io
import _warnings
import builtins
import posix
import sys

from _mcp_guest.lazy import lazy
from _mcp_guest.session import session
from _mcp_guest.worker.channel import close_all, identity, move_high
import mcp.runtime

__all__ = ["StandardStreams", "prepare", "provided_names"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from _mcp_guest.display import display
    from _mcp_guest.servers import registry
    from _mcp_guest.worker import loop
else:
    display = lazy("_mcp_guest.display.display")
    registry = lazy("_mcp_guest.servers.registry")
    loop = lazy("_mcp_guest.worker.loop")

OUTPUT_ERRORS = "mcp-output"
FORK_WARNING = "multi-threaded, use of fork"
SHELL_HINT = "os.system: this sandbox has no shell and no program but Python; nothing was done"
NOT_FOUND = 127 << 8
INPUT_HINT = "input() has nobody to ask here: put the value into the code"


def provided_names() -> "dict[str, Any]":
    """The sandbox's own names, which are there in every namespace."""
    names = {name: getattr(mcp.runtime, name) for name in mcp.runtime.__all__}
    return {"mcp": mcp, "runtime": mcp.runtime, "mcp_servers": session.server_table, **names}


def prepare() -> "dict[str, Any]":
    """Sets the process up; returns the namespace that cells run in."""
    _codecs.register_error(OUTPUT_ERRORS, _output_errors)
    filters: list[Any] = _warnings.filters
    filters.insert(0, ("ignore", _ForkWarning(), DeprecationWarning, None, 0))
    # About a coroutine that is dropped within the runtime: a last expression without `await` has
    # its own message.
    filters.insert(0, ("ignore", None, RuntimeWarning, "_mcp_guest.worker.execution", 0))
    sys.dont_write_bytecode = True
    sys.argv = [""]
    sys.path.insert(0, "")
    builtins.input = _no_input
    _replace_system()
    _add_site_builtins()
    sys.meta_path.insert(0, _ImportPatches())
    main = type(sys)("__main__")
    vars(main).update(provided_names(), __builtins__=builtins, LOADED_MCP_SERVERS=())
    # The name that notebooks use.
    vars(main)["display"] = mcp.runtime.show
    sys.modules["__main__"] = main
    return main.__dict__


class StandardStreams:
    """The standard streams; opened anew, because those of the start were made for other
    descriptors."""

    def __init__(self) -> None:
        source = _io.BufferedReader(_io.FileIO(0, "r", closefd=False))
        stdin = _io.TextIOWrapper(source, "utf-8", "surrogateescape")
        for name in ("stdin", "__stdin__"):
            setattr(sys, name, stdin)
        self.outputs = _Output("stdout", 1, OUTPUT_ERRORS), _Output("stderr", 2, "backslashreplace")
        for output in self.outputs:
            posix.register_at_fork(after_in_child=output.after_fork)

    def renew(self) -> None:
        """At the start of a run: output goes where it is expected, and no opened file becomes a
        standard stream."""
        try:
            posix.fstat(0)
        except OSError:
            posix.open("/dev/null", posix.O_RDONLY)  # It gets the lowest free number.
        for output in self.outputs:
            output.renew()


class _Output:
    """`sys.stdout` or `sys.stderr`. Code may close, replace or redirect it: every run starts with
    the original."""

    def __init__(self, name: str, descriptor: int, errors: str) -> None:
        self.name, self.descriptor, self.errors = name, descriptor, errors
        self.spare = move_high(posix.dup(descriptor))
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
        """Restores the stream and its descriptor at the start of a run."""
        try:
            if identity(self.descriptor) != self.identity:
                raise OSError
        except OSError:
            self._reconnect()
        if getattr(sys, self.name, None) is not self.stream:
            # A wrapper that is dropped here closes the stream that it wraps.
            setattr(sys, self.name, self.stream)
        try:
            usable = not self.stream.closed
        except ValueError:
            usable = False  # The stream was detached from its buffer.
        if not usable:
            self.stream = self._open()

    def _reconnect(self) -> None:
        try:
            if identity(self.spare) == self.identity:
                posix.dup2(self.spare, self.descriptor)
        except OSError:
            pass  # User code closed the spare as well: the output is lost.

    def after_fork(self) -> None:
        """Closes the spare in a forked child."""
        close_all(self.spare)


def _output_errors(error: UnicodeError) -> tuple[str | bytes, int]:
    """Writes stray bytes of file names as they are, as ordinary Python does, and other surrogates
    as escapes."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    out = bytearray()
    for character in error.object[error.start : error.end]:
        number = ord(character)
        out += bytes((number - 0xDC00,)) if 0xDC80 <= number <= 0xDCFF else f"\\u{number:04x}".encode()
    return bytes(out), error.end


def _fork_by_default(context: "Any") -> None:
    """Processes fork, because other children do not know what cells define."""
    context._default_context = context.DefaultContext(context._concrete_contexts["fork"])


def _keep_packages(subprocess: "Any") -> None:
    """Interpreters that libraries start see the installed packages: the flags of this one would
    hide them."""
    flags = subprocess._args_from_interpreter_flags
    subprocess._args_from_interpreter_flags = lambda: [flag for flag in flags() if flag not in ("-I", "-S")]


def _replace_system() -> None:
    """Without a shell, `os.system` says so instead of failing without a word."""
    try:
        posix.stat("/bin/sh")
    except OSError:
        for name in ("posix", "os"):
            if name in sys.modules:
                module: Any = sys.modules[name]
                module.system = _no_system


def _no_system(command: "str | bytes") -> int:
    print(SHELL_HINT, file=sys.stderr)
    return NOT_FOUND


def _show_figures(pyplot: "Any") -> None:
    """`plt.show()` shows the open figures, as where there is a screen."""
    pyplot.show = lambda *_arguments, **_options: display.show_open_figures()


class _ImportPatches:
    """Changes modules that would not work as usual here, right after their import, and finds
    servers by the names of their variables."""

    CHANGES: "dict[str, Callable[[Any], None]]" = {
        "asyncio.base_events": lambda module: loop.allow_loops_in_cells(module),
        "asyncio.runners": lambda module: loop.allow_run_in_cells(module),
        "matplotlib.pyplot": _show_figures,
        "multiprocessing.context": _fork_by_default,
        "subprocess": _keep_packages,
    }

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name.startswith("mcp_"):
            return registry.find_variable(name)
        change = self.CHANGES.get(name)
        if change is None:
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        execute = loader.exec_module

        def execute_and_change(module: "Any") -> None:
            execute(module)
            change(module)

        loader.exec_module = execute_and_change
        return spec


class _ForkWarning:
    """Matches the warning about fork with threads while the reader is the only other thread."""

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
    """`help`, `copyright` and the like, made on first use."""

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
