"""Tracebacks and await stacks, with the user's own frames told apart; runs in the child."""

from __future__ import annotations

import asyncio
import functools
import gc
import linecache
import os
import sys
import sysconfig
import threading
import traceback
from dataclasses import asdict, dataclass
from types import FrameType, TracebackType
from typing import Any

_HARNESS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES = tuple(
    {
        os.path.realpath(path) + os.sep
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
        if (path := sysconfig.get_paths().get(name))
    }
)


@dataclass(frozen=True)
class Frame:
    """One frame of a stack.

    Args:
        own: the user's, not a library's, Python's or ours.
    """

    file: str
    line: int
    function: str
    source: str
    own: bool

    def as_dict(self) -> dict[str, Any]:
        """For the channel to the parent."""
        return asdict(self)


@functools.lru_cache(maxsize=4096)
def is_own(file: str) -> bool:
    """Whether a file belongs to the user: not to Python, an installed package or the harness, and on disk at all."""
    if file.startswith("<"):
        return False
    real = os.path.realpath(file)
    if (
        real.startswith(_HARNESS)
        or f"{os.sep}site-packages{os.sep}" in real
        or f"{os.sep}dist-packages{os.sep}" in real
    ):
        return False
    # A project may lie below Python's own folder only in contrived set-ups; libraries always do.
    return not real.startswith(_LIBRARIES)


def frame_at(file: str, line: int | None, function: str) -> Frame:
    """Describe a place in code; a frame may be without a line for a moment."""
    line = line or 0
    return Frame(file, line, function, linecache.getline(file, line).strip(), is_own(file))


def own_place(frame: FrameType | None) -> tuple[str, int]:
    """The user's innermost line of a running stack, as file and line; an empty file where there is none."""
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "", 0


def is_ours(file: str) -> bool:
    """Whether a file belongs to the harness."""
    return file.startswith(_HARNESS)


def of_traceback(trace: TracebackType | None) -> list[Frame]:
    """An exception's frames, outermost first; the harness's own are left out."""
    frames = [
        frame_at(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in traceback.walk_tb(trace)
    ]
    return [frame for frame in frames if not frame.file.startswith(_HARNESS)]


def of_frame(frame: FrameType | None) -> list[Frame]:
    """A running frame's stack, outermost first; the harness's own frames are left out."""
    found = [frame_at(f.f_code.co_filename, line, f.f_code.co_name) for f, line in traceback.walk_stack(frame)]
    return [item for item in reversed(found) if not item.file.startswith(_HARNESS)]


def own_caller() -> dict[str, Any] | None:
    """The innermost line of the user's on the stack of whoever calls; None where there is none on it."""
    frame = sys._getframe(1)
    while frame is not None:
        if _known_own(frame.f_code.co_filename):
            # Not frame_at: it would look the file up on disk again, at each of hundreds of calls in a second.
            file, line = frame.f_code.co_filename, frame.f_lineno
            return Frame(file, line, frame.f_code.co_name, linecache.getline(file, line).strip(), True).as_dict()
        frame = frame.f_back  # type: ignore[assignment]
    return None


@functools.lru_cache(maxsize=4096)
def _known_own(file: str) -> bool:
    return is_own(file)


def await_chain(awaitable: Any) -> list[Frame]:
    """What a suspended coroutine waits in, outermost first.

    ``Task.get_stack`` shows only the outermost frame of a suspended task; the place that matters is at the other end
    of the chain of awaited coroutines, generators and asynchronous generators.
    """
    frames: list[Frame] = []
    seen: set[int] = set()
    while awaitable is not None and id(awaitable) not in seen:
        seen.add(id(awaitable))
        for prefix, inner in _AWAITING:
            if hasattr(awaitable, f"{prefix}_frame"):
                frame = getattr(awaitable, f"{prefix}_frame")
                if frame is not None:
                    frames.append(frame_at(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
                awaitable = getattr(awaitable, inner)
                break
        else:
            awaitable = _wrapped(awaitable)
    return frames


_AWAITING = (("cr", "cr_await"), ("gi", "gi_yieldfrom"), ("ag", "ag_await"))
# What `async for` and `__await__` put in between; none of them has an attribute that leads on.
_WRAPPERS = ("async_generator_asend", "async_generator_athrow", "coroutine_wrapper", "anext_awaitable")


def _wrapped(awaitable: Any) -> Any:
    """The coroutine or generator inside one of Python's own wrappers; None for a future, where the chain ends."""
    if type(awaitable).__name__ not in _WRAPPERS:
        return None
    inner = gc.get_referents(awaitable)
    return next((one for one in inner if any(hasattr(one, f"{prefix}_frame") for prefix, _ in _AWAITING)), None)


def snapshot(loop: asyncio.AbstractEventLoop | None, main_thread: int) -> dict[str, Any]:
    """Every task's await stack and every thread's stack, as plain data; called from a thread beside the loop's.

    Args:
        loop: the loop whose tasks are wanted; None before there is one.
        main_thread: the thread that runs it.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    threads = [
        {
            "name": names.get(ident, str(ident)),
            "main": ident == main_thread,
            "frames": [frame.as_dict() for frame in of_frame(frame)],
        }
        for ident, frame in sys._current_frames().items()
        if ident != threading.get_ident()
    ]
    return {"tasks": _tasks(loop), "threads": threads}


def _tasks(loop: asyncio.AbstractEventLoop | None) -> list[dict[str, Any]]:
    if loop is None:
        return []
    for _ in range(5):
        try:
            tasks = asyncio.all_tasks(loop)
            break
        except RuntimeError:  # the loop made or ended a task while the set was being copied
            continue
    else:
        return []
    described = []
    for task in sorted(tasks, key=lambda task: (len(task.get_name()), task.get_name())):
        chain = [frame for frame in await_chain(task.get_coro()) if not frame.file.startswith(_HARNESS)]
        described.append({"name": task.get_name(), "frames": [frame.as_dict() for frame in chain]})
    return described
