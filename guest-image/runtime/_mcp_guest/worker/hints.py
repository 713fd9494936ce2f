"""Hints about errors that come from what is different here: no shell, no network, no `pip`, limits,
and a forgotten `await`. Each becomes a note of the exception."""

import posix
import sys

from _mcp_guest.init.cgroup import limit
from _mcp_guest.lazy import lazy
from _mcp_guest.session import session

__all__ = ["add_hint"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import linecache

    from _mcp_guest.api import manual
else:
    linecache = lazy("linecache")
    manual = lazy("_mcp_guest.api.manual")

NO_INSTALL = "packages cannot be installed from here: the user adds them to the image (guest-image lock --wheels)"
NO_SHELL = "this sandbox has no shell and no program but Python: use pathlib, shutil and other modules"
FENCE = "```"
AWAIT = "`await` is missing before the call that made the coroutine"
# The modules that start programs, as their file names.
STARTERS = ("/subprocess.py", "/popen_fork.py", "/popen_spawn_posix.py")
POOLS = ("BrokenProcessPool", "TerminatedWorkerError")
KILLED, BUS_ERROR = -9, -7
TRY_AGAIN = 11


def add_hint(error: BaseException) -> None:
    """Adds the note that fits, once."""
    text = _hint(error)
    note = f"hint: {text}"
    if text and note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def _hint(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return _about_syntax(error)
    if isinstance(error, ModuleNotFoundError):
        return _about_module(error.name or "")
    if isinstance(error, (TypeError, AttributeError)):
        return AWAIT if "'coroutine'" in str(error) or '"coroutine"' in str(error) else ""
    if isinstance(error, RuntimeError) and str(error).startswith("can't start new thread"):
        return _about_processes()
    if isinstance(error, OSError):
        return _about_system(error)
    kind = type(error).__name__
    if kind in POOLS or (kind == "CalledProcessError" and getattr(error, "returncode", 0) in (KILLED, BUS_ERROR)):
        return _about_killed()
    return ""


def _about_syntax(error: SyntaxError) -> str:
    filename = error.filename or ""
    if not filename.startswith("<cell "):
        return ""
    line = (error.text or linecache.getline(filename, error.lineno or 0)).strip()
    if line.startswith(FENCE) or linecache.getline(filename, 1).startswith(FENCE):
        return "send the code without the Markdown fences around it"
    if line.startswith(("!pip", "%pip", "%conda", "pip install", "pip3 install", "!conda")):
        return f"{NO_INSTALL}.{_installed()}"
    if line.startswith("!"):
        return NO_SHELL
    if line.startswith("%matplotlib"):
        return "delete this line: open figures are shown at the end of the run without it"
    if line.startswith(("%time", "%%time")):
        return "IPython's magics do not exist here: use time.perf_counter() or timeit.timeit()"
    return "IPython's magics do not exist here: use plain Python" if line.startswith("%") else ""


def _about_module(name: str) -> str:
    top = name.partition(".")[0]
    if not top or ("." in name and top in sys.modules):
        return ""
    if top.startswith("mcp_"):
        return session.servers.explain_missing(top[4:])
    if top in sys.stdlib_module_names:
        return f"this image has no module {top}"
    return f"{top} is not installed, and {NO_INSTALL}.{_installed()}"


def _installed() -> str:
    text = manual.installed().strip()
    return f" {text}" if text else " Only the standard library is there."


def _about_processes() -> str:
    most = limit("pids.max", "pids/pids.max")
    return f"at most {most} processes and threads may exist at once (setting `pids`)" if most else ""


def _about_system(error: OSError) -> str:
    if type(error).__name__ in ("gaierror", "URLError"):
        return "this sandbox has no network: use the tools of MCP servers"
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    starts = last is not None and last.tb_frame.f_code.co_filename.endswith(STARTERS)
    if starts and isinstance(error, FileNotFoundError) and not _has_shell():
        return NO_SHELL
    if error.errno == TRY_AGAIN and (starts or isinstance(error, BlockingIOError)):
        return _about_processes() if starts else ""
    return ""


def _has_shell() -> bool:
    try:
        posix.stat("/bin/sh")
    except OSError:
        return False
    return True


def _about_killed() -> str:
    memory, parts = limit("memory.max", "memory/memory.limit_in_bytes"), []
    if memory:
        parts.append(f"all processes together may use {memory >> 20:,} MiB of memory")
    try:
        status = posix.statvfs("/dev/shm")
        parts.append(f"/dev/shm holds {status.f_blocks * status.f_frsize >> 20:,} MiB")
    except OSError:
        pass
    return f"a child process was killed, perhaps at a limit: {', and '.join(parts)}" if parts else ""
