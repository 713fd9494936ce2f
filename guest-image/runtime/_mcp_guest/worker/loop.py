"""The session's event loop: cells run in it, and tasks that they started go on between cells."""

import sys

from _mcp_guest.lazy import lazy
from _mcp_guest.worker.source import Location, is_user_code

__all__ = ["Loop", "allow_loops_in_cells", "allow_run_in_cells"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from asyncio import AbstractEventLoop, Task, events, tasks
    from collections.abc import Callable, Coroutine
    from contextvars import Context
    from types import CodeType, FrameType
    from typing import Any

    from _mcp_guest.worker.interrupts import Interrupts
else:
    asyncio = lazy("asyncio")
    events = lazy("asyncio.events")
    tasks = lazy("asyncio.tasks")

COROUTINE, ASYNC_GENERATOR = 0x80, 0x200


class Loop:
    """Creates the event loop when it is first needed, and again when user code has closed it."""

    def __init__(self, interrupts: "Interrupts") -> None:
        self.interrupts = interrupts
        self.loop: AbstractEventLoop | None = None
        # The loop, while it runs between cells: `wake` stops it.
        self.idling: AbstractEventLoop | None = None
        # Whether it could not run between cells, which is not tried again before the next cell.
        self.is_broken = False

    def _ready(self) -> "AbstractEventLoop":
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        return self.loop

    def execute(self, code: "CodeType", namespace: "dict[str, Any]", context: "Context") -> None:
        """Executes a cell without `await`. As in Jupyter, it finds a running loop: tasks that it
        creates begin after the cell."""
        self.is_broken = False
        try:
            events._set_running_loop(self._ready())
        except Exception:
            # User code has broken what asyncio needs: the cell may do without.
            context.run(exec, code, namespace)
            return
        try:
            context.run(exec, code, namespace)
        finally:
            events._set_running_loop(None)

    def has_tasks(self) -> bool:
        """Whether tasks of earlier cells have not ended."""
        try:
            is_open = self.loop is not None and not (self.is_broken or self.loop.is_closed())
            return is_open and bool(asyncio.all_tasks(self.loop))
        except Exception:
            return False

    def idle(self, has_requests: "Callable[[], bool]") -> None:
        """Runs the tasks of earlier cells until `wake` is called."""
        loop = self._ready()
        events._set_running_loop(None)
        self.idling = loop
        try:
            if not has_requests():
                loop.run_forever()
        except Exception:
            self.is_broken = True
            raise
        finally:
            self.idling = None

    def wake(self) -> None:
        """Ends `idle`; called in the reading thread after each request."""
        loop = self.idling
        if loop is not None:
            try:
                loop.call_soon_threadsafe(self._stop, loop)
            except RuntimeError:
                pass  # A task has closed it, which ends `idle` too.

    def _stop(self, loop: "AbstractEventLoop") -> None:
        # A call that comes too late must not stop the loop of the next cell.
        if self.idling is loop:
            loop.stop()

    def run(self, coroutine: "Coroutine[Any, Any, object]", context: "Context") -> object:
        """Runs a cell's coroutine to its end. Tasks that it started and did not await continue in
        later cells."""
        loop = self._ready()
        self.is_broken = False
        asyncio.set_event_loop(loop)
        # A signal handler may have cut off the end of a cell without `await`.
        events._set_running_loop(None)
        task: Task[object] = loop.create_task(coroutine, context=context)
        cancelled = False

        def cancel() -> Location:
            nonlocal cancelled
            cancelled = True
            location = _waiting_location(task)
            task.cancel()
            loop.call_soon_threadsafe(lambda: None)
            return location

        self.interrupts.cancel = cancel
        try:
            return loop.run_until_complete(task)
        except asyncio.CancelledError as error:
            if not cancelled:
                raise
            raise KeyboardInterrupt().with_traceback(error.__traceback__) from None
        finally:
            if not task.done():
                # KeyboardInterrupt or SystemExit came from another task: this one must not continue
                # unnoticed.
                task.cancel()
                loop.run_until_complete(asyncio.wait([task]))
            self.interrupts.cancel = None


def allow_run_in_cells(runners: "Any") -> None:
    """`asyncio.run` works in every cell, though a loop is running there."""
    runners.run = _beside_the_loop(runners.run)
    runners.Runner.run = _beside_the_loop(runners.Runner.run)


def allow_loops_in_cells(base_events: "Any") -> None:
    """The same for loops that a cell makes and runs itself."""
    kind = base_events.BaseEventLoop
    for name in ("run_forever", "run_until_complete"):
        setattr(kind, name, _beside_the_loop(getattr(kind, name)))


def _beside_the_loop(function: "Callable[..., Any]") -> "Callable[..., Any]":
    """A function that runs another loop, made to set the session's loop aside where a cell calls
    it. Called within a coroutine it fails as usual."""

    def run(*arguments: object, **options: object) -> "Any":
        outer = events._get_running_loop()
        if outer is None or not _is_called_by_cell(sys._getframe(1)):
            return function(*arguments, **options)
        task = tasks.current_task(outer)
        if task is not None:
            tasks._leave_task(outer, task)
        events._set_running_loop(None)
        try:
            return function(*arguments, **options)
        finally:
            events._set_running_loop(outer)
            if task is not None:
                tasks._enter_task(outer, task)
            events.set_event_loop(outer)

    run.__dict__.update(__wrapped__=function, __doc__=function.__doc__)
    run.__name__, run.__qualname__, run.__module__ = function.__name__, function.__qualname__, function.__module__
    return run


def _is_called_by_cell(frame: "FrameType | None") -> bool:
    """Whether the innermost coroutine is that of the cell itself, or there is none."""
    while frame is not None and not frame.f_code.co_flags & (COROUTINE | ASYNC_GENERATOR):
        frame = frame.f_back
    return frame is None or frame.f_code.co_name == "<module>"


def _waiting_location(task: "Task[object]") -> Location:
    """The innermost user line at which the task waits."""
    waiting: Any = task.get_coro()
    location = Location(waiting.cr_code, waiting.cr_frame.f_lasti if waiting.cr_frame else -1, None)
    for _ in range(1000):
        frame = getattr(waiting, "cr_frame", None)
        if frame is None:
            break
        if is_user_code(frame.f_code.co_filename):
            location = Location(frame.f_code, frame.f_lasti, frame.f_lineno)
        waiting = waiting.cr_await
    return location
