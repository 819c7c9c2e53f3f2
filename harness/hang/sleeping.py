"""Who is blamed may just sleep for a while that it has named itself: then nobody can say yet that it hangs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.hang.groups import Group, in_words
from harness.hang.model import Process, Sample
from harness.hang.waits import JOINED

# Who sleeps longer than this has been put to sleep for good, as far as a training is concerned.
LONGEST_SECONDS = 590.0
# Two reads of one end differ by what the clock does in between.
_SAME = 0.1


@dataclass(frozen=True)
class Sleep:
    """When somebody goes on by itself.

    Attributes:
        left: seconds from the last sample; 0 where it is due.
        again: it woke up between the samples and went to sleep anew: it looks for something, over and over.
    """

    left: float
    again: bool


def main_thread(process: Process) -> Sleep | None:
    """Of the first thread of a process; None where it doesn't sleep so, or the samples don't tell."""
    return _of(process, str(process.pid))


def another_thread(process: Process) -> Sleep | None:
    """Of one of its other threads that slept through all samples, the one that wakes up first."""
    seen = _seen(process)
    others = seen[-1].sleeps.keys() - {str(process.pid)} if seen else ()
    slept = [sleep for name in others if (sleep := _of(process, name)) is not None and not sleep.again]
    return min(slept, key=lambda sleep: sleep.left, default=None)


def all_handlers(groups: Iterable[Group]) -> Sleep | None:
    """Of servers of which each has a thread that sleeps on, and will go on before long."""
    found = [another_thread(process) for group in groups for process in group.members]
    return _latest(found)


def everybody(groups: Iterable[Group]) -> Sleep | None:
    """Of groups whose members all sleep, and will all go on before long: the last of them; None where one doesn't."""
    return _latest([main_thread(process) for group in groups for process in group.members])


def in_the_way(blamed: Sequence[Group], groups: Sequence[Group]) -> tuple[Sleep, str] | None:
    """Why those who are blamed can't be said to hang: their sleep, and a sentence; None where they can.

    Args:
        blamed: whom a verdict names.
        groups: everybody.
    """
    sleep = everybody(blamed) if blamed else None
    if sleep is None:
        return None
    who = in_words([process for group in blamed for process in group.members])
    if not sleep.again:
        return (
            sleep,
            f"{who}: asleep for {_seconds(sleep.left)} more, as its own code wants; it goes on by itself then.",
        )
    others = [group for group in groups if group not in blamed and group.kind not in JOINED]
    busy = [group for group in others if group.moved or group.computes]
    if not busy:
        return None
    working = in_words([process for group in busy for process in group.members])
    return sleep, f"{who}: wakes up and looks, again and again, and {working} works meanwhile."


def gap(sleep: Sleep) -> int:
    """Seconds between two samples after which it is awake."""
    return math.ceil(sleep.left) + 3


def _latest(found: Sequence[Sleep | None]) -> Sleep | None:
    sleeps = [sleep for sleep in found if sleep is not None and sleep.left <= LONGEST_SECONDS]
    return max(sleeps, key=lambda sleep: sleep.left) if sleeps and len(sleeps) == len(found) else None


def _of(process: Process, thread: str) -> Sleep | None:
    seen = _seen(process)
    if not seen or not all(thread in sample.sleeps for sample in seen):
        return None
    ends = [sample.sleeps[thread] for sample in seen]
    return Sleep(max(0.0, ends[-1] - seen[-1].at), again=ends[-1] - ends[0] > _SAME)


def _seen(process: Process) -> list[Sample]:
    return [sample for sample in process.samples if sample.threads]


def _seconds(left: float) -> str:
    return f"{left:.0f} s" if left < 120 else f"{left / 60:.0f} min"
