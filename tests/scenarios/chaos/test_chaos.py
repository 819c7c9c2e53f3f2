"""Faults in the middle of verbs: all comes back, no result is half-written, nothing is left or touched of others."""

from __future__ import annotations

import pytest

from tests.chaos.__main__ import run

pytestmark = [pytest.mark.docker, pytest.mark.slow]

SEED, STEPS = 2, 12


def test_a_dozen_steps_of_a_seed() -> None:
    outcomes, wrong = run(SEED, 1, STEPS)
    assert [f"{one.step}: {one.faults}" for one in outcomes if one.faults] == []
    assert wrong == []
    # Most of the faults have to come while the verb is at work; else nothing was tried.
    assert sum(one.in_flight for one in outcomes) >= STEPS // 3
