"""Runs inside another process, once: writes what each of its asyncio tasks awaits, as JSON, into a new file.

It is sent there as text, so it stands alone and runs on Python 3.10 to 3.13. It calls nothing of the program's: names
and types only, no ``repr`` of anything.
"""

from __future__ import annotations

from typing import Any


def write(path: str) -> None:
    """Write ``{"pid": …, "tasks": […]}`` to a file that must not be there yet; it appears whole."""
    import json
    import os
    import sys

    asyncio = sys.modules.get("asyncio.tasks")
    tasks: list[dict[str, Any]] = []
    if asyncio is not None:
        known: list[Any] = []
        # Python 3.12 keeps tasks of C and of Python apart, and eager ones in a plain set.
        for name in ("_all_tasks", "_scheduled_tasks", "_eager_tasks"):
            for _ in range(3):
                try:
                    known += [task for task in list(getattr(asyncio, name, ())) if not task.done()]
                    break
                except RuntimeError:
                    continue  # the set changed meanwhile
        seen: set[int] = set()
        for task in known:
            if id(task) not in seen:
                seen.add(id(task))
                tasks.append(_task(task))
    content = json.dumps({"pid": os.getpid(), "tasks": tasks}).encode()
    descriptor = os.open(path + ".part", os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.rename(path + ".part", path)


def _task(task: Any) -> dict[str, Any]:
    stack: list[dict[str, Any]] = []
    awaited = task.get_coro()
    waiting_on = ""
    for _ in range(200):
        if awaited is None:
            break
        for kind, inner in (("cr", "cr_await"), ("gi", "gi_yieldfrom"), ("ag", "ag_await")):
            frame = getattr(awaited, kind + "_frame", awaited)
            if frame is awaited:
                continue
            if frame is not None:
                code = frame.f_code
                name = getattr(code, "co_qualname", code.co_name)
                stack.append({"name": name, "file": code.co_filename, "line": frame.f_lineno})
            awaited = getattr(awaited, inner, None)
            break
        else:
            waiting_on = type(awaited).__name__
            awaited = None
    future = getattr(task, "_fut_waiter", None)
    if future is not None:
        waiting_on = type(future).__name__
    return {"task": task.get_name(), "stack": stack, "waiting_on": waiting_on}
