"""What many runs leave behind, and what is only made once."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checks.stage3_data import Resources
from harness.checks.stage3_ends import Case
from harness.checks.stage3_gather import Load
from harness.checks.stage3_rows import Rows
from harness.checks.stage3_rules import left_behind
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
