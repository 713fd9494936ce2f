"""The event loop of top-level `await`: one for the whole session, so that tasks live on from cell to cell."""

from _mcp_guest.lazy import load
from _mcp_guest.worker.source import Place, is_user_code

__all__ = ["Loop"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task
    from collections.abc import Coroutine
    from contextvars import Context
    from typing import Any

    from _mcp_guest.worker.interrupts import Interrupts


class Loop:
    """Made when first needed, made anew when user code closed it."""

    def __init__(self, interrupts: "Interrupts") -> None:
        self.interrupts = interrupts
        self.loop: AbstractEventLoop | None = None

    def run(self, coroutine: "Coroutine[Any, Any, object]", context: "Context") -> object:
        """Runs a cell's coroutine to its end. Tasks that it started and did not await go on in later cells."""
        asyncio = load("asyncio")
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        loop: AbstractEventLoop = self.loop
        asyncio.set_event_loop(loop)
        task: Task[object] = loop.create_task(coroutine, context=context)
        cancelled = False

        def cancel() -> Place:
            nonlocal cancelled
            cancelled = True
            place = _waiting_place(task)
            task.cancel()
            loop.call_soon_threadsafe(lambda: None)
            return place

        self.interrupts.cancel = cancel
        try:
            return loop.run_until_complete(task)
        except asyncio.CancelledError as error:
            if not cancelled:
                raise
            raise KeyboardInterrupt().with_traceback(error.__traceback__) from None
        finally:
            if not task.done():
                # KeyboardInterrupt or SystemExit came out of another task: this one must not run on unseen.
                task.cancel()
                loop.run_until_complete(asyncio.wait([task]))
            self.interrupts.cancel = None


def _waiting_place(task: "Task[object]") -> Place:
    """The innermost user line that the task waits in."""
    waiting: Any = task.get_coro()
    place = Place(waiting.cr_code, waiting.cr_frame.f_lasti if waiting.cr_frame else -1, None)
    for _ in range(1000):
        frame = getattr(waiting, "cr_frame", None)
        if frame is None:
            break
        if is_user_code(frame.f_code.co_filename):
            place = Place(frame.f_code, frame.f_lasti, frame.f_lineno)
        waiting = waiting.cr_await
    return place
