"""Which threads sleep until a moment that they have named themselves: ``time.sleep`` of Python 3.11 and newer.

Python asks for an end on the monotonic clock rather than for a length, and the kernel shows the arguments of the call
in which a thread sleeps. So it is known when such a thread will go on by itself, which no stack tells. Older
interpreters sleep in ``select``, whose end stays in the kernel.
"""

from __future__ import annotations

import platform
import struct
import time
from collections.abc import Mapping

from harness.processes.sampling import reach
from harness.processes.sampling.turns import Turns
from harness.processes.stat import read_small

# clock_nanosleep(clock, flags, end, rest): its number, the clock and the flag by which `end` is a moment.
_NUMBERS = {"x86_64": 230, "aarch64": 115}
_MONOTONIC, _ABSOLUTE = 1, 1
_MOST_THREADS = 256


def ends(pid: int, threads: Mapping[int, Turns]) -> dict[int, float]:
    """Seconds until each of its sleeping threads goes on by itself, by the thread's number; others aren't in it.

    Args:
        threads: of the process, as ``turns.of_process`` gives them.
    """
    number = _NUMBERS.get(platform.machine())
    if number is None:
        return {}
    found = {}
    for thread in sorted(number for number, seen in threads.items() if seen.state == "S")[:_MOST_THREADS]:
        end = _end(pid, thread, number)
        if end is not None:
            found[thread] = round(end - time.clock_gettime(time.CLOCK_MONOTONIC), 2)
    return found


def _end(pid: int, thread: int, number: int) -> float | None:
    called = (read_small(f"/proc/{pid}/task/{thread}/syscall") or b"").split()
    try:
        if len(called) < 5 or int(called[0]) != number:
            return None
        clock, flags, address = (int(argument, 16) for argument in called[1:4])
    except ValueError:
        return None
    # An int in a register of 64 bits: what stands above its 32 is anything.
    if clock & 0xFFFFFFFF != _MONOTONIC or not flags & _ABSOLUTE:
        return None
    raw = reach.memory(pid, address, 16)
    if len(raw) < 16:
        return None
    seconds, nanoseconds = struct.unpack("=qq", raw)
    return float(seconds + nanoseconds / 1e9)
