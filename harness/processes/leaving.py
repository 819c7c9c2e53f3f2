"""That a command ends its children whatever ends it: a signal becomes an exception, and a kill takes them along."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def _ended_by(number: int) -> BaseException:
    return SystemExit(128 + number)


@contextlib.contextmanager
def leaving_on_signals(reason: Callable[[int], BaseException] = _ended_by) -> Iterator[None]:
    """While this lasts, a hang-up or SIGTERM ends us by an exception, so that things can be put right first.

    Only the first one: make and a service manager both hand the same signal on, and the second must not break off what
    the first began to put right. A hang-up that is ignored stays ignored, as `nohup` means it.

    Args:
        reason: the exception for a signal's number; by default the exit code that a shell would give.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what a signal does
        return

    left: list[int] = []

    def leave(number: int, _: FrameType | None) -> None:
        if not left:
            left.append(number)
            raise reason(number)

    heard = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN]
    before: dict[int, Any] = {number: signal.signal(number, leave) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_with_parent() -> None:
    """In a child, before its program begins (``preexec_fn``): be killed when the thread that started it has ended."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
