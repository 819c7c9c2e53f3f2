"""What only a run shows is named with its line; what the source shows is said once, beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.checks.conftest import Checker
from tests.support import wrong_examples
from tests.support.wrong_examples import FOLDER, Example


def wrong(findings: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {id_: finding for id_, finding in findings.items() if finding["status"] != "pass"}


def run(check: Checker, agent: str) -> dict[str, dict[str, Any]]:
    return wrong(check.command_here("--stage", "2", "--agent", str(FOLDER / agent)).findings)


@pytest.mark.parametrize("example", wrong_examples.by("stage 2"), ids=str)
def test_what_a_run_shows_is_named_with_its_line(check: Checker, example: Example) -> None:
    found = run(check, example.name)
    assert set(found) == set(example.ids)
    for finding in found.values():
        assert finding["consequence"]
        if example.line is not None:
            assert finding["place"]["line"] == example.line
            assert Path(finding["place"]["file"]) == example.path


# The example, what the run shows, and what the source says of it besides.
BOTH = [
    ("reward_int.py:RewardInt", {"run.reward"}),
    ("shared_client_closed.py:SharedClientClosed", {"run.shared-client"}),
    ("v1_appended.py:V1Appended", {"run.raises", "run.calls", "lint.v1-appended"}),
    ("temperature_zero.py:TemperatureZero", {"lint.temperature-zero"}),
    ("new_client_per_run.py:NewClientPerRun", {"lint.new-client-per-run"}),
    ("blocking_call.py:BlockingCall", {"lint.blocking-call"}),
    ("run_not_async.py:RunNotAsync", {"agent.run-not-async"}),
]


@pytest.mark.parametrize(("agent", "ids"), BOTH, ids=[agent for agent, _ in BOTH])
def test_what_the_source_shows_too_is_said_once(check: Checker, agent: str, ids: set[str]) -> None:
    found = run(check, agent)
    assert set(found) == ids
    marked = Example(agent, "", ()).line
    assert marked in {finding["place"]["line"] for finding in found.values() if finding["place"]}


def test_a_comment_takes_a_rule_out(check: Checker) -> None:
    text = (FOLDER / "options_from_outside.py").read_text()
    text = text.replace("# WRONG", "# drydock: ignore[temperature-zero, top-p]")
    (check.folder / "mine.py").write_text(text)
    found = check.command_here("--stage", "2", "--agent", "mine.py:OptionsFromOutside").findings
    assert set(wrong(found)) == {"lint.dropped-argument"}
