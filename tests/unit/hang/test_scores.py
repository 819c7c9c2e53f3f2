"""Verdicts are scored, not claimed: `pytest -s` shows the tables."""

from __future__ import annotations

import pytest

from harness.hang import causes, decide
from tests.support.hang_cases import Score, cases, scores, table


@pytest.mark.parametrize("name", ["recorded", "recorder"])
def test_everything_recorded_here_is_right(name: str) -> None:
    listed = scores(name)
    assert listed
    _show(name, listed)
    assert [str(score) for score in listed if not score.cause_right] == []
    assert [str(score) for score in listed if not score.laggards_right] == []


def test_public_cases_with_a_known_cause() -> None:
    listed = [score for score in scores("public") if score.case.known]
    assert len(listed) > 30
    _show("public", listed)
    assert [str(score) for score in listed if score.certain_and_wrong] == []
    assert _share(listed, [score.cause_right for score in listed]) >= 0.8
    assert _share(listed, [score.laggards_right for score in listed]) >= 0.8


def test_public_cases_without_a_known_cause_are_never_certain() -> None:
    listed = [score for score in scores("public") if not score.case.known]
    assert listed
    assert [str(score) for score in listed if score.verdict.confidence == "certain"] == []


def test_healthy_systems_raise_no_alarm() -> None:
    listed = scores("healthy")
    _show("healthy", listed)
    assert len(listed) >= 8
    assert [str(score) for score in listed if score.false_alarm] == []


@pytest.mark.parametrize("name", ["own", "later", "live"])
def test_mechanisms_written_down_here(name: str) -> None:
    listed = [score for score in scores(name) if score.case.known]
    _show(name, listed)
    assert [str(score) for score in listed if score.certain_and_wrong or score.false_alarm] == []
    assert _share(listed, [score.cause_right for score in listed]) >= 0.95
    assert _share(listed, [score.laggards_right for score in listed]) >= 0.95


def test_the_order_of_the_rules_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are found by their files' names, and one more file may come anywhere."""
    names = ("recorded", "public", "own", "later")
    before = [score.verdict.as_dict() for name in names for score in scores(name)]
    monkeypatch.setattr(decide, "RULES", tuple(reversed(causes.RULES)))
    assert [score.verdict.as_dict() for name in names for score in scores(name)] == before


def test_a_name_of_a_case_folder_decides_nothing() -> None:
    """The truth lies beside the dumps; whoever reads it could not be wrong."""
    for case in cases("recorded"):
        assert not any("truth.json" in process.note for process in case.verdict().processes)
        assert not any("truth.json" in note for note in case.verdict().notes)


def _share(listed: list[Score], right: list[bool]) -> float:
    return sum(right) / len(listed)


def _show(name: str, listed: list[Score]) -> None:
    cause, who = sum(score.cause_right for score in listed), sum(score.laggards_right for score in listed)
    print(f"\n{name}: cause {cause}/{len(listed)}, laggards {who}/{len(listed)}")
    print(table(listed))
    for score in listed:
        if not score.cause_right or not score.laggards_right:
            print(f"  not right: {score}")
