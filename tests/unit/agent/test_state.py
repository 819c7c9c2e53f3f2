from __future__ import annotations

from typing import Any

import pytest

from harness.agent import state


class Agent:
    pass


def agent(**attributes: Any) -> Agent:
    made = Agent()
    vars(made).update(attributes)
    return made


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (1, 2, ("1", "2")),
        ("a", "b", ("'a'", "'b'")),
        (0, 1, ("0", "1")),
        ([], ["a", "b"], ("list of 0", "list of 2")),
        ((1, 2), (1, 3), ("(1, 2)", "(1, 3)")),
    ],
)
def test_what_a_run_has_changed_is_told(before: Any, after: Any, says: tuple[str, str]) -> None:
    told = state.changed(state.of(agent(x=before)), state.of(agent(x=after)))
    assert told == [{"name": "x", "before": says[0], "after": says[1]}]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, object()),
        (None, "made at first use"),
        (False, True),
        ("", "made at first use"),
        ({}, {"cached": 1}),
        (float("nan"), float("nan")),
        (object(), object()),
    ],
)
def test_what_is_made_at_first_use_and_caches_are_no_state(before: Any, after: Any) -> None:
    assert state.changed(state.of(agent(x=before)), state.of(agent(x=after))) == []


def test_an_agent_without_attributes_and_one_that_compares_oddly() -> None:
    class Slots:
        __slots__ = ()

    class Odd:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("never compare me")

        __hash__ = None  # type: ignore[assignment]

    assert state.of(Slots()) == {}
    odd = agent(x=Odd(), y=(1, Odd()))
    assert state.changed(state.of(odd), state.of(odd)) == []
