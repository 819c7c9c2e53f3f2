"""Remembers who waits at a breakpoint: where, since when, and at which exception. Ray's tables know none of it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

# Thread identifier to what it waits at.
waiting: dict[int, dict[str, Any]] = {}
_forgets = False


def remember(ray_debugger: Any) -> None:
    """Put ourselves around Ray's ``set_trace``, which every ``breakpoint()`` and every post-mortem goes through."""
    ensure = ray_debugger._ensure_debugger_port_open_thread_safe
    original: Callable[..., Any] = ray_debugger.set_trace

    # Not around set_trace itself: debugpy is to stop in the frame that called it. What set_trace does first is this.
    def ensure_and_note() -> Any:
        _forget_when_attached()
        frame = sys._getframe(1)
        if frame.f_code is original.__code__ and frame.f_back is not None:
            note(frame.f_back, post_mortem=frame.f_locals.get("breakpoint_uuid") is not None)
        return ensure()

    ray_debugger._ensure_debugger_port_open_thread_safe = ensure_and_note


def _forget_when_attached() -> None:
    global _forgets
    if _forgets:
        return
    _forgets = True
    worker_class = type(sys.modules["ray._private.worker"].global_worker)
    pausing = worker_class.worker_paused_by_debugger

    class Pausing:
        def __init__(self, worker: Any) -> None:
            self._pausing = pausing(worker)

        def __enter__(self) -> Any:
            return self._pausing.__enter__()

        def __exit__(self, *error: Any) -> Any:
            waiting.pop(threading.get_ident(), None)
            return self._pausing.__exit__(*error)

    worker_class.worker_paused_by_debugger = lambda worker: Pausing(worker)


def note(frame: Any, *, post_mortem: bool) -> None:
    """Write down what this thread is going to wait at."""
    error = sys.exc_info()[1] if post_mortem else None
    place = frame
    if error is not None:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = trace.tb_frame if trace is not None else frame
        line = trace.tb_lineno if trace is not None else frame.f_lineno
    else:
        # The stop is in the caller of breakpoint(); Ray's own frames are nobody's place.
        while place.f_back is not None and place.f_code.co_filename.replace("\\", "/").endswith("ray/util/rpdb.py"):
            place = place.f_back
        line = place.f_lineno
    waiting[threading.get_ident()] = {
        "file": place.f_code.co_filename,
        "line": line,
        "function": getattr(place.f_code, "co_qualname", place.f_code.co_name),
        "thread": threading.current_thread().name,
        "since": time.time(),
        "exception": f"{type(error).__name__}: {error}" if error is not None else None,
        "event_loop": _in_event_loop(),
    }


def _in_event_loop() -> bool:
    # The form that raises nothing: a debugger that stops at every exception would stop in here.
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None
