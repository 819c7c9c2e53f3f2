"""Figures: equal to those of plain loops, right by hand where that is possible, and unharmed by what isn't a number."""

from __future__ import annotations

import math
import random

import pytest

from harness.compare import limits
from harness.compare.figures import CAPS, Tally, percentile
from harness.errors import BadSetting
from tests.unit.compare import independent
from tests.unit.compare.recorded import agreeing, changed

AGREEING = agreeing(samples=9, tokens=23)
FAR = [[-30.0, -0.1, -50.0], [-1.0, -45.0]]
SIDES = {
    "rounding": (AGREEING.decode, AGREEING.reference),
    "other weights": (AGREEING.decode, changed(AGREEING.reference, 0.8)),
    "far beyond the bounds": (FAR, [list(reversed(row)) for row in FAR]),
    "not all finite": ([[-1.0, math.nan, -0.5], [-math.inf, -2.0]], [[-1.1, -1.0, -0.4], [-3.0, -2.2]]),
    "one token": ([[-0.5]], [[-0.7]]),
    "equal": ([[-0.5, -1.5]], [[-0.5, -1.5]]),
}


@pytest.mark.parametrize("name", SIDES)
def test_they_are_those_of_plain_loops(name: str) -> None:
    engine, trainer = SIDES[name]
    tally = Tally()
    for a, b in zip(engine, trainer, strict=True):
        tally.add(a, b)
    found = tally.figures().as_dict()
    pairs = list(zip(engine, trainer, strict=True))
    for figure, value in independent.figures(pairs).items():
        assert independent.off(found[figure], value, figure) <= 1e-6
    for cap in CAPS:
        truncated, masked = independent.shares(pairs, cap)
        assert found["truncated"][f"{cap:g}"] == pytest.approx(truncated, abs=1e-12)
        assert found["masked"][f"{cap:g}"] == pytest.approx(masked, abs=1e-12)


def test_by_hand() -> None:
    tally = Tally()
    tally.add([math.log(0.5), math.log(0.2)], [math.log(0.25), math.log(0.2)])
    found = tally.figures()
    assert found.abs_max == pytest.approx(math.log(2))
    assert found.k1 == pytest.approx(math.log(2) / 2)
    assert found.k3 == pytest.approx((0.5 - 1 + math.log(2)) / 2)
    assert found.mult_prob_error == pytest.approx((2 + 1) / 2)
    assert found.prob_mean == pytest.approx(0.125)
    assert found.prob_max == pytest.approx(0.25)
    assert found.ppl_ratio == pytest.approx(math.sqrt(2))
    assert found.chi2_token == pytest.approx((0.25 + 1) / 2 - 1)
    assert found.outside == 0
    assert found.ess == pytest.approx(1.5**2 / (2 * 1.25))


def test_agreement_on_the_most_likely_token() -> None:
    tally = Tally()
    tally.add([-1.0] * 3, [-1.0] * 3, [1, 2, 3], [1, 2, 3])
    tally.add([-1.0] * 3, [-1.0] * 3, [1, 2, 3], [1, 9, 3])
    found = tally.figures()
    assert found.greedy == pytest.approx(5 / 6)
    assert (found.divergence, found.undiverged) == (2.0, 0.5)


def test_without_tokens_nothing_is_claimed() -> None:
    found = Tally().figures()
    assert found.tokens == 0
    assert math.isnan(found.abs_mean)
    assert all(held.kept is None for held in limits.hold(found, limits.chosen("all")))


def test_percentile_is_exact() -> None:
    values = [random.Random(3).random() for _ in range(101)]
    assert percentile(values, 0.99) == sorted(values)[99]
    assert percentile([4.0], 0.99) == 4.0


def test_every_limit_names_a_figure_and_a_source() -> None:
    for project, entries in limits.table().items():
        assert any(limit.binding for limit in entries), project
        for limit in entries:
            assert hasattr(Tally().figures(), limit.figure)
            assert limit.source
            assert (limit.most is None) != (limit.least is None)


def test_limits_of_nobody_are_refused() -> None:
    assert limits.chosen("slime, verl") == ("slime", "verl")
    with pytest.raises(BadSetting, match="there are no limits of"):
        limits.chosen("verl,trl-ish")


def test_a_limit_is_kept_up_to_its_value() -> None:
    (limit,) = limits.table()["prime-rl"]
    figures = Tally().figures()
    figures.k3 = 0.015
    assert limit.kept(figures)
    figures.k3 = 0.0151
    assert not limit.kept(figures)
