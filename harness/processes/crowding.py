"""How much longer things take on this machine now: where many wait for its cores, limits grow."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

MOST_PATIENT = 4.0


@lru_cache(maxsize=1)
def patience() -> float:
    """By what limits are multiplied on this machine now: 1, or more where many wait for its cores."""
    try:
        loadavg = Path("/proc/loadavg").read_text(encoding="ascii")
    except (OSError, ValueError):
        return 1.0
    return patience_of(loadavg, os.cpu_count() or 1)


def patience_of(loadavg: str, cores: int) -> float:
    """The same from /proc/loadavg: its first field has the last minute, its fourth the threads that want a core now."""
    fields = loadavg.split()
    if len(fields) < 4:
        return 1.0
    waiting = max(float(fields[0]), float(fields[3].partition("/")[0]))
    # A machine with two for each core still gives everybody a share in time.
    return min(MOST_PATIENT, max(1.0, waiting / (2 * cores)))
