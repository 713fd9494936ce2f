# The C half of `signal`, which the start of the guest uses alone: the Python half imports `enum`.
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

SIGCHLD: int
SIGINT: int
SIGKILL: int
SIGTERM: int
SIG_BLOCK: int
SIG_DFL: int
SIG_IGN: int
SIG_SETMASK: int
default_int_handler: Callable[[int, FrameType | None], Any]

def pthread_kill(thread_id: int, signalnum: int, /) -> None: ...
def pthread_sigmask(how: int, mask: Iterable[int], /) -> set[int]: ...
def set_wakeup_fd(fd: int, /, *, warn_on_full_buffer: bool = True) -> int: ...
def signal(signalnum: int, handler: Callable[[int, FrameType | None], Any] | int, /) -> Any: ...
def getsignal(number: int, /) -> object: ...
