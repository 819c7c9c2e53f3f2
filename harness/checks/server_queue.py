"""How long calls wait in the server's own queue, told by a bare client that makes the same calls; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks.stage3_data import CallRow
from harness.checks.stage3_rows import percentiles

# How the client says that a call was broken off when the bare client's time was up.
_BROKEN_OFF = "CancelledError"


@dataclass(frozen=True)
class Bare:
    """The bare client's calls.

    Args:
        latency: p50, p95, p99 and the largest, in seconds. A call that was broken off counts with the time that it had
            waited until then: without it, those that were served first would speak for all.
        broken_off: how many were.
        waited: the least that one of those had waited.
    """

    latency: dict[str, float]
    broken_off: int = 0
    waited: float = 0.0

    def is_bound(self, percentile: str) -> bool:
        """Whether a percentile is only the least that it can be."""
        return bool(self.broken_off) and self.latency[percentile] >= self.waited


def of(rows: Sequence[CallRow]) -> Bare:
    """Read a bare client's calls."""
    sent = [(call, call.ended - call.sent) for call in rows if call.sent is not None]
    answered = [seconds for call, seconds in sent if call.ok]
    waited = [seconds for call, seconds in sent if call.failure.startswith(_BROKEN_OFF)]
    return Bare(percentiles([*answered, *waited]), len(waited), min(waited, default=0.0))


def in_queue(call_p50: float, bare: Bare, alone: float) -> tuple[float, bool]:
    """Seconds of a call's p50 that are the server's queue, and whether they are only the least that it can be.

    Args:
        call_p50: of the agent's calls.
        alone: seconds of a call with nothing else going on.
    """
    seconds = max(0.0, min(call_p50, bare.latency["p50"]) - alone)
    return seconds, bare.is_bound("p50") and call_p50 > bare.latency["p50"]
