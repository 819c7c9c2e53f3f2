"""``python -m tests.bench``: run all benchmarks; exit code 1 when a goal is missed."""

from __future__ import annotations

import sys

from tests.bench import (
    breakpoint_watch,
    compare,
    fan_in,
    hang_dump,
    hang_watch,
    log_points,
    many_ranks,
    many_runs,
    replay,
    warm_up,
)
from tests.bench.timing import machine


def main() -> None:
    """Run them one after another."""
    print(machine())
    met = [
        replay.run(),
        warm_up.run(),
        hang_dump.run(),
        many_runs.run(),
        log_points.run(),
        breakpoint_watch.run(),
        many_ranks.run(),
        compare.run(),
        hang_watch.run(),
        fan_in.run(),
    ]
    print(machine())
    sys.exit(0 if all(met) else 1)


main()
