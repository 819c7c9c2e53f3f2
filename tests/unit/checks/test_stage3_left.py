"""What many runs leave behind, and what is only made once."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checks.stage3_data import Resources
from harness.checks.stage3_ends import Case
from harness.checks.stage3_gather import Load
from harness.checks.stage3_left import left_behind, per_run
from harness.checks.stage3_rows import Rows
from tests.support.load_data import load_data


@pytest.mark.parametrize(
    ("runs", "objects", "megabytes", "status"),
    [
        (32, 2_300, 3.7, "pass"),  # caches and late imports, seen with an agent that is right
        (512, 4_000, 20, "pass"),
        (512, 60_000, 60, "warn"),
        (8, 9_000, 20, "warn"),
        (512, 60_000, 1, "pass"),  # objects come back in a later collection
    ],
)
def test_growth_counts_by_run_beyond_what_is_made_once(runs: int, objects: int, megabytes: float, status: str) -> None:
    data, rows, calls = load_data(runs)
    after = Resources(rss=90_000_000 + round(megabytes * 1e6), objects=50_000 + objects)
    data = data.model_copy(update={"before": Resources(rss=90_000_000, objects=50_000), "after": after})
    agent: Any = None
    case = Case(Load(held=[{}, {}]), Rows(tuple(rows), tuple(calls), (), data), agent)
    (finding,) = left_behind(case)
    assert finding.status == status


@pytest.mark.parametrize(
    ("threads", "told"),
    [
        ([f"ThreadPoolExecutor-0_{n}" for n in range(49)], 0),  # one pool of all runs
        (["ThreadPoolExecutor-0_0", "ThreadPoolExecutor-1_0", "metrics_0"], 0),
        ([f"ThreadPoolExecutor-{n}_0" for n in range(64)], 64),  # a pool a run
        ([f"ThreadPoolExecutor-{n}_{k}" for n in range(64) for k in range(4)], 256),
        (["judge_0"] * 64, 64),  # the same, with a prefix of one's own
        ([f"judge_{n}" for n in range(32)], 0),
        ([f"Thread-{n} (poll)" for n in range(64)], 64),
        ([], 0),
    ],
)
def test_a_pool_of_threads_that_runs_share_has_a_bound(threads: list[str], told: int) -> None:
    assert len(per_run(threads, 64)) == told
