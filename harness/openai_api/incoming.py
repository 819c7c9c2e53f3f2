"""A request of an agent as it arrived."""

from __future__ import annotations

from dataclasses import dataclass

# Bodies beyond this are counted but not kept; a request with images is a few hundred kilobytes.
MAX_KEPT = 8 * 1024 * 1024


@dataclass(frozen=True)
class Incoming:
    """One request of an agent.

    Args:
        run: index of the run that it belongs to.
        number: counts from 1 within the run, in the order of arrival.
        in_process: our observer inside the agent's process saw it, so it came through httpx.
        began: the run's start, on the monotonic clock.
    """

    run: int
    number: int
    method: str
    path: str
    headers: list[tuple[bytes, bytes]]
    body: bytes
    in_process: bool
    began: float
