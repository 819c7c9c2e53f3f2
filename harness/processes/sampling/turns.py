"""Which threads of a process ran, by the kernel's own count of their turns on a core.

A thread that slept at both ends of some time and had no turn in between has not executed one instruction. So stacks
that were read from a sleeping process meanwhile are whole although nobody stopped it, and stacks of a moment ago still
hold. Where the kernel keeps no such count, nothing is concluded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from harness.processes.stat import read_small

# What threads without a frame of Python may use, as a share of a core: gloo's poll a hundred times a second.
_IDLING = 0.02
# py-spy names no thread where it can't tell which it is.
_THREAD = re.compile(rb'"os_thread_id":\s*(\d+|null)')


class Turns(NamedTuple):
    """One thread at one moment.

    Attributes:
        state: the kernel's letter.
        taken: how often it came onto a core so far.
        nanoseconds: time on a core so far; None where the kernel counts neither, and ``taken`` is 0.
    """

    state: str
    taken: int
    nanoseconds: int | None


def of_process(pid: int) -> dict[int, Turns]:
    """All its threads by their numbers; {} when it is gone."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return {}
    return {int(thread): _of_thread(f"/proc/{pid}/task/{thread}") for thread in threads}


def _of_thread(place: str) -> Turns:
    stat = read_small(f"{place}/stat") or b""
    state = stat[stat.rfind(b")") + 2 :][:1].decode("ascii", "replace")
    numbers = (read_small(f"{place}/schedstat") or b"").split()
    if len(numbers) < 3 or numbers[2] == b"0":
        return Turns(state, 0, None)
    return Turns(state, int(numbers[2]), int(numbers[0]))


def threads_in(dump: bytes) -> frozenset[int] | None:
    """The threads that a dump of py-spy's shows; None where it doesn't tell which they are."""
    found = _THREAD.findall(dump)
    return None if not found or b"null" in found else frozenset(map(int, found))


def slept(before: Mapping[int, Turns], after: Mapping[int, Turns], threads: frozenset[int]) -> bool:
    """Whether all of these threads slept from one moment to the other."""
    if not threads <= before.keys():
        # Numbers of another PID namespace: who is who isn't known, so nobody may have run.
        threads = frozenset(before)
    return bool(threads) and all(
        thread in after
        and before[thread].nanoseconds is not None
        and before[thread].state == after[thread].state == "S"
        and before[thread].taken == after[thread].taken
        for thread in threads
    )


def unmoved(before: Mapping[int, Turns], after: Mapping[int, Turns], threads: frozenset[int], seconds: float) -> bool:
    """Whether stacks of these threads, taken ``seconds`` ago, must still hold.

    Others have no frame of Python then. They may tick along in a library, but not start, end or work: what works may
    call Python.
    """
    if before.keys() != after.keys() or not slept(before, after, threads):
        return False
    used = [(after[thread].nanoseconds or 0) - (before[thread].nanoseconds or 0) for thread in before]
    return sum(used) <= _IDLING * seconds * 1e9
