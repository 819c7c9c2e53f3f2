"""What the process of an agent holds: memory, descriptors, threads, tasks; runs in the child."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import threading
from typing import Any

from harness.agent import awaiting
from harness.agent.loop_watch import rss

MAX_NAMED = 50


def count(ours: set[Any], *, clients: int) -> dict[str, Any]:
    """Count everything, after what is only garbage has gone.

    Args:
        ours: tasks that belong to the harness.
        clients: HTTP clients that are open.
    """
    for _ in range(2):  # the first pass runs finalizers, which may set more free
        gc.collect()
    _give_back()
    descriptors, sockets = _descriptors()
    return {
        "rss": rss(),
        "objects": len(gc.get_objects()),
        "descriptors": descriptors,
        "sockets": sockets,
        "threads": _threads(),
        "tasks": named_tasks(ours),
        "clients": clients,
    }


def _descriptors() -> tuple[int, int]:
    """Open descriptors, and how many of them are sockets."""
    links = []
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []:
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            pass  # the one of the listing itself
    return len(links), sum(link.startswith("socket:") for link in links)


def _threads() -> list[str]:
    """Threads that aren't ours; those of asyncio's own pool are few and end with the loop."""
    return [
        thread.name
        for thread in threading.enumerate()
        if thread is not threading.main_thread()
        and not thread.name.startswith(("drydock-", "asyncio_", "AnyIO worker"))
    ]


def named_tasks(ours: set[Any]) -> list[str]:
    """The agent's tasks that are not done, each with the user's line at which it waits."""
    left = [task for task in asyncio.all_tasks() if task not in ours and not is_cleaning(task)]
    named = []
    for task in left[:MAX_NAMED]:
        own = [frame for frame in awaiting.describe(awaiting.look(task.get_coro()).key) if frame["own"]]
        where = f" at {own[-1]['file']}:{own[-1]['line']}" if own else ""
        named.append(f"{task.get_name()}{where}")
    return named + [""] * (len(left) - len(named))


def is_cleaning(task: asyncio.Task[Any]) -> bool:
    """Whether a task is the loop's own, which closes a generator that was not read to its end.

    An SDK leaves a stream at its last event, before the end of its bytes. Nobody's run is at work in such a task.
    """
    return type(task.get_coro()).__name__ == "async_generator_athrow"


def _give_back() -> None:
    """Have the C library return what it holds in reserve, so that memory means memory in use."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        pass  # another C library
