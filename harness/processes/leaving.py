"""That a command ends its children whatever ends it: a signal becomes an exception, and a kill takes them along."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


@contextlib.contextmanager
def leaving_on_signals() -> Iterator[None]:
    """While this lasts, a hang-up or SIGTERM ends us by ``SystemExit``, so that things can be put right first."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what a signal does
        return

    def leave(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    before: dict[int, Any] = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_with_parent() -> None:
    """In a child, before its program begins (``preexec_fn``): be killed when the thread that started it has ended."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
