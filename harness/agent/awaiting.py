"""What suspended runs wait for, cheaply enough to ask hundreds of them several times a second; runs in the child.

Frames are kept as (code, line) pairs here and described once, at the end: looking up source lines and deciding whose
file it is costs more than everything else.
"""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from harness.agent import frames

Key = tuple[tuple[CodeType, int], ...]
"""A stack, outermost frame first."""

_LONGEST = 60

# Types of asyncio's and anyio's things to wait for, by the name of the class whose method is suspended.
_BY_TYPE = {
    "Lock": "lock",
    "Semaphore": "semaphore",
    "BoundedSemaphore": "semaphore",
    "CapacityLimiter": "semaphore",
    "CapacityLimiterAdapter": "semaphore",
    "Condition": "condition",
    "Event": "event",
    "Queue": "queue",
    "LifoQueue": "queue",
    "PriorityQueue": "queue",
}
_ASYNC_LIBRARIES = (f"{os.sep}asyncio{os.sep}", f"{os.sep}anyio{os.sep}", f"{os.sep}aiohttp{os.sep}connector.py")


@dataclass(frozen=True)
class Waiting:
    """What one run waits for.

    Args:
        kind: one of ``WaitKind`` of the checks.
        key: the stack that waits.
        detail: of a lock or semaphore: what it is, with its value.
    """

    kind: str
    key: Key
    detail: str = ""


def look(coroutine: Any) -> Waiting:
    """What a run waits for that waits for no answer of the model."""
    if getattr(coroutine, "cr_running", False):
        return Waiting("loop", ())
    found: list[FrameType] = []
    end = None
    for item in _suspended(coroutine):
        if isinstance(item, FrameType):
            found.append(item)
        else:
            end = item
    key = tuple((frame.f_code, frame.f_lineno) for frame in found)
    if len(found) <= 1 and not _has_begun(found):
        return Waiting("loop", key)
    if end is not None and _is_done(end):
        return Waiting("loop", key)
    kind, detail = _kind(found, end)
    return Waiting(kind, key, detail)


def describe(key: Key) -> list[dict[str, Any]]:
    """A stack's frames as plain data, without the harness's own."""
    return [
        dict(_described(code.co_filename, line, code.co_name))
        for code, line in key
        if not frames.is_ours(code.co_filename)
    ]


@functools.lru_cache(maxsize=4096)
def _described(file: str, line: int, function: str) -> dict[str, Any]:
    """Hundreds of stacks share most of their frames, and looking one up asks the disk whether its file has changed."""
    return frames.frame_at(file, line, function).as_dict()


def _suspended(awaitable: Any) -> Iterator[Any]:
    """Frames of a suspended coroutine, outermost first, then the future at the chain's end; follows tasks."""
    for _ in range(_LONGEST):
        if awaitable is None:
            return
        for prefix, inner in (("cr", "cr_await"), ("gi", "gi_yieldfrom"), ("ag", "ag_await")):
            frame = getattr(awaitable, f"{prefix}_frame", awaitable)
            if frame is awaitable:
                continue
            if frame is not None:
                yield frame
                if (task := _inner_task(frame)) is not None:
                    awaitable = task.get_coro()
                    break
            awaitable = getattr(awaitable, inner)
            break
        else:
            awaitable, end = _inside(awaitable)
            if end is not None:
                yield end
                return


def _inside(awaitable: Any) -> tuple[Any, Any]:
    """What is inside an object that is no coroutine: something to go on with, or the future at the end."""
    future: Any = awaitable
    if not hasattr(awaitable, "get_loop"):
        inner = gc.get_referents(awaitable)
        future = next((one for one in inner if hasattr(one, "get_loop")), None)
        if future is None:
            return next((one for one in inner if hasattr(one, "cr_frame") or hasattr(one, "ag_frame")), None), None
    if hasattr(future, "get_coro") and not future.done():
        return future.get_coro(), None
    for child in getattr(future, "_children", ()):  # asyncio.gather
        if hasattr(child, "get_coro") and not child.done():
            return child.get_coro(), None
    return None, future


def _inner_task(frame: FrameType) -> Any:
    """The task that ``asyncio.wait_for`` made for what it waits for, before Python 3.12."""
    if frame.f_code.co_name != "wait_for" or not frame.f_code.co_filename.endswith(f"asyncio{os.sep}tasks.py"):
        return None
    inner: Any = frame.f_locals.get("fut")
    return inner if hasattr(inner, "get_coro") and not inner.done() else None


def _has_begun(found: list[FrameType]) -> bool:
    return bool(found) and found[0].f_lasti > 3


def _is_done(end: Any) -> bool:
    try:
        return bool(end.done())
    except Exception:  # noqa: BLE001  # foreign futures may have anything of that name
        return False


def _kind(found: list[FrameType], end: Any) -> tuple[str, str]:
    """The kind of a wait, from the innermost library frames and the future at the end."""
    for frame in reversed(found):
        file = frame.f_code.co_filename
        if not any(part in file for part in _ASYNC_LIBRARIES):
            break
        name = frame.f_code.co_name
        if file.endswith("connector.py"):
            return "connection", ""
        if name in ("to_thread", "run_sync_in_worker_thread"):
            return "thread", ""
        if name == "sleep":
            return "sleep", ""
        if f"asyncio{os.sep}streams.py" in file:
            return "socket", ""
        if name in ("acquire", "wait", "get", "put", "join", "acquire_on_behalf_of"):
            owner = frame.f_locals.get("self")
            if (kind := _BY_TYPE.get(type(owner).__name__)) is not None:
                return kind, _shown(owner)
    if _runs_in_pool(end):
        return "thread", ""
    return "other", ""


def _runs_in_pool(end: Any) -> bool:
    """Whether a future stands for work in a pool of threads or processes."""
    try:
        callbacks = list(end._callbacks or ())
    except Exception:  # noqa: BLE001  # a private list of asyncio's; foreign futures have none
        return False
    return any("_chain_future" in getattr(callback, "__qualname__", "") for callback, *_ in callbacks)


def _shown(owner: Any) -> str:
    try:
        return repr(owner)[:200]
    except Exception:  # noqa: BLE001  # a foreign __repr__ may raise anything
        return type(owner).__name__
