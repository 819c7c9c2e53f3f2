"""What ``make hang-watch`` costs while nothing hangs: CPU a look, shared among those that it watches."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from harness.hang.watch.looks import Looker
from harness.processes.tree import descendants_of, read_stats

PROCESSES, LOOKS = (1, 64), 50
GOAL_MILLISECONDS = 10.0


def run() -> bool:
    """Measure and print; whether the goal is met."""
    met = True
    for number in PROCESSES:
        each = _milliseconds(number)
        met = met and each <= GOAL_MILLISECONDS
        others = len(read_stats())
        print(
            f"hang-watch, {number} processes among {others}: {each:.2f} ms of CPU a look and process "
            f"(goal ≤ {GOAL_MILLISECONDS:g} ms)"
        )
    return met


def _milliseconds(number: int) -> float:
    """CPU of one look in this process, for each of so many watched ones that sleep."""
    watched = [
        subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
        for _ in range(number)
    ]
    try:
        looker, roots = Looker(step=r"step (\d+)"), [process.pid for process in watched]
        looker.look(roots, time.monotonic())
        before = os.times()
        for _ in range(LOOKS):
            # As the watch does it: whoever has descended from them meanwhile is looked at as well.
            looker.look([*roots, *descendants_of(roots, read_stats())], time.monotonic())
        after = os.times()
    finally:
        for process in watched:
            process.communicate(b"")
    # nvidia-smi, where there is one, counts as well.
    used = sum(after[:4]) - sum(before[:4])
    return used / LOOKS / number * 1000


if __name__ == "__main__":
    sys.exit(0 if run() else 1)
