from __future__ import annotations

import json
from typing import Any

import pytest

from harness.agent.rewards import MAX_REPR, Reward, describe


class Float32:
    """Stands in for numpy.float32: a number that is no float."""

    def __float__(self) -> float:
        return 0.5


class Float64(float):
    """Stands in for numpy.float64, which is a float."""


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __float__(self) -> float:
        raise KeyError("no float")


@pytest.mark.parametrize(
    ("value", "is_float", "number", "finite"),
    [
        (0.5, True, 0.5, True),
        (Float64(0.5), True, 0.5, True),
        (1, False, 1.0, True),
        (True, False, 1.0, True),
        (Float32(), False, 0.5, True),
        (float("nan"), True, None, False),
        (float("-inf"), True, None, False),
        (None, False, None, None),
        ("1.0", False, None, None),
        ([1.0], False, None, None),
        (Hostile(), False, None, None),
    ],
)
def test_a_value_is_described(value: Any, is_float: bool, number: float | None, finite: bool | None) -> None:
    whole = describe(value).whole
    assert (whole.is_float, whole.number, whole.finite) == (is_float, number, finite)


def test_a_value_whose_repr_raises_is_described() -> None:
    assert "whose repr raises RuntimeError" in describe(Hostile()).whole.shown


def test_a_long_value_is_cut() -> None:
    shown = describe("x" * 10**6).whole.shown
    assert len(shown) < MAX_REPR + 50
    assert "1000002 characters" in shown


def test_a_dict_is_described_by_its_items() -> None:
    reward = describe({"a": 1.0, 2: None})
    assert reward.is_dict
    assert [value.type for value in reward.items.values()] == ["float", "NoneType"]
    assert reward.keys == ("int", "str")


def test_a_description_survives_the_channel() -> None:
    reward = describe({"a": 1.0, "b": float("nan")})
    assert Reward.from_dict(json.loads(json.dumps(reward.as_dict()))) == reward
