from __future__ import annotations

import pytest

from harness.checks.stage4.stall import Look, stalled


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        (Look(enqueued=12, running=0, capacity=0, quiet=11), "capacity"),
        (Look(enqueued=12, running=0, capacity=0, quiet=3), None),
        (Look(enqueued=12, running=4, capacity=0, quiet=60), None),  # those that run will let others in
        (Look(enqueued=0, running=4, capacity=0, quiet=121), "still"),
        (Look(enqueued=0, running=0, capacity=8, quiet=5), None),
    ],
)
def test_whether_anything_can_still_move(look: Look, expected: str | None) -> None:
    assert stalled(look, patience=120) == expected


def test_a_short_patience_counts_for_both() -> None:
    assert stalled(Look(12, 0, -1, quiet=2.5), patience=2) == "capacity"
