"""What could still wake up an event loop of asyncio that sleeps: its timers, and the sockets that it watches."""

from __future__ import annotations

import struct
import time
from typing import Any

from harness.processes.sampling.coroutines.objects import Objects
from harness.processes.sampling.coroutines.peek import Unreadable

_FLOAT_VALUE, _MOST_TIMERS = 16, 10_000


def loop(objects: Objects, address: int) -> dict[str, Any] | None:
    """``{"timers": number, "next_timer": seconds from now or null, "watched": number}``; None for uvloop's and others.

    A timer that was cancelled doesn't count, nor does the pipe by which other threads wake the loop up.
    """
    try:
        scheduled, selector = objects.attribute(address, "_scheduled"), objects.attribute(address, "_selector")
        if scheduled is None or selector is None or objects.type_name(scheduled) != "list":
            return None
        watched = objects.attribute(selector, "_fd_to_key")
        if watched is None or objects.type_name(watched) != "dict":
            return None
        due = [at for handle in objects.elements(scheduled)[:_MOST_TIMERS] if (at := _due(objects, handle)) is not None]
        # asyncio's clock is the machine's monotonic one.
        ahead = round(min(due) - time.monotonic(), 3) if due else None
        return {"timers": len(due), "next_timer": ahead, "watched": max(0, objects.length(watched) - 1)}
    except Unreadable:
        return None


def _due(objects: Objects, handle: int) -> float | None:
    """When a timer is due; None if it was cancelled. Of its slots the first flag says that, and one is a number."""
    at: float | None = None
    cancelled: bool | None = None
    for word in objects.peek.words(handle + 16, min(32, objects.size(handle) // 8 - 2)):
        kind = objects.type_name(word) if word else ""
        if kind == "bool" and cancelled is None:
            cancelled = word == objects.true
        elif kind == "float":
            at = struct.unpack("<d", objects.peek.read(word + _FLOAT_VALUE, 8))[0]
    return at if cancelled is False else None
