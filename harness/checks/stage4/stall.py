"""Decides while a batch runs whether anything can still move; pure."""

from __future__ import annotations

from dataclasses import dataclass

from harness.checks.stage4.data import Stall

# A controller whose counters say that nobody may be let in changes its mind in milliseconds, or never.
CAPACITY_SECONDS = 10.0


@dataclass(frozen=True)
class Look:
    """One look at the counters.

    Args:
        enqueued, running, capacity: as AReaL's controller counts them, a group of runs as one.
        quiet: seconds since a counter changed, or a call to the server or of an agent began or ended.
        calls: calls to the server that are under way.
    """

    enqueued: int
    running: int
    capacity: int
    quiet: float
    calls: int = 0


def stalled(look: Look, patience: float) -> Stall | None:
    """Why nothing can move any more; None while something may.

    Args:
        patience: seconds that one run may take.
    """
    if look.enqueued and not look.running and look.capacity <= 0 and look.quiet >= min(CAPACITY_SECONDS, patience):
        return "capacity"
    return "still" if look.quiet >= patience else None
