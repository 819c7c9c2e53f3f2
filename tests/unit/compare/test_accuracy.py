"""Both sides' rewards: means, the difference with its standard error, and what has none."""

from __future__ import annotations

import random
import statistics

import pytest

from harness.compare.accuracy import accuracy


def rows(engine: list[float], reference: list[float]) -> list[dict[str, dict[str, object]]]:
    return [{"engine": {"reward": a}, "reference": {"reward": b}} for a, b in zip(engine, reference, strict=True)]


def test_means_and_the_standard_error_of_their_difference() -> None:
    drawn = random.Random(1)
    one = [float(drawn.random() < 0.5) for _ in range(64)]
    other = [float(drawn.random() < 0.5) for _ in range(64)]
    found = accuracy("f", rows(one, other))
    assert (found.engine, found.reference) == (statistics.fmean(one), statistics.fmean(other))
    pairs = [b - a for a, b in zip(one, other, strict=True)]
    assert found.difference == pytest.approx(statistics.fmean(pairs))
    assert found.error == pytest.approx(statistics.stdev(pairs) / 8)
    assert found.by_chance
    assert "which chance alone makes" in found.text()


def test_a_side_that_is_worse_is_more_than_chance() -> None:
    found = accuracy("f", rows([1.0] * 40, [0.0] * 30 + [1.0] * 10))
    assert found.by_chance is False
    assert "more than chance" in found.text()


def test_what_has_no_reward_is_counted_and_left_out() -> None:
    found = accuracy("f", [*rows([1.0], [0.0]), {"engine": {"error": "x"}, "reference": {"reward": 1.0}}])
    assert (found.samples, found.engine, found.problems) == (1, 1.0, {"x": 1})
    assert found.by_chance is None
    assert found.as_dict()["error"] is None
    assert "none on both sides" in accuracy("f", []).text()
