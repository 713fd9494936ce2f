"""The event loop for top-level `await`: one for the whole session, so that tasks continue from cell
to cell."""

from _mcp_guest.lazy import lazy
from _mcp_guest.worker.source import Location, is_user_code

__all__ = ["Loop"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from asyncio import AbstractEventLoop, Task
    from collections.abc import Coroutine
    from contextvars import Context
    from typing import Any

    from _mcp_guest.worker.interrupts import Interrupts
else:
    asyncio = lazy("asyncio")


class Loop:
    """Creates the event loop when it is first needed, and again when user code has closed it."""

    def __init__(self, interrupts: "Interrupts") -> None:
        self.interrupts = interrupts
        self.loop: AbstractEventLoop | None = None

    def run(self, coroutine: "Coroutine[Any, Any, object]", context: "Context") -> object:
        """Runs a cell's coroutine to its end. Tasks that it started and did not await continue in
        later cells."""
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        loop = self.loop
        asyncio.set_event_loop(loop)
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
