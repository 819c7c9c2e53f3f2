"""Each wrong example is named with its line, and by nothing else; the right ones are clean."""

from __future__ import annotations

import pytest

from harness.checks.findings import Finding
from harness.checks.lint.run import LintReport, lint
from tests.support import wrong_examples
from tests.support.harness import CLONE
from tests.support.wrong_examples import FOLDER, Example

RIGHT = ["single_turn.py:SingleTurn", "tool_use.py:ToolUse", "anthropic_agent.py:AnthropicAgent"]


def said(report: LintReport) -> list[Finding]:
    return [finding for finding in report.findings if finding.status != "pass"]


@pytest.mark.parametrize("example", wrong_examples.by("lint"), ids=str)
def test_an_agent_is_named_with_its_line(example: Example) -> None:
    (finding,) = said(lint(example.name, None, [FOLDER]))
    assert (finding.id,) == example.ids
    assert finding.place is not None
    assert (finding.place.file, finding.place.line) == (str(example.path), example.line)
    assert "# WRONG" in finding.place.source
    assert finding.detail
    assert finding.consequence
    assert finding.mend


@pytest.mark.parametrize("example", wrong_examples.by("configuration"), ids=str)
def test_a_configuration_is_named_with_its_line(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AREAL_ADMIN_KEY", "one-that-nobody-knows")
    (finding,) = said(lint(None, example.name, [FOLDER]))
    assert (finding.id,) == example.ids
    assert finding.place is not None
    assert finding.place.line == example.line
    assert finding.consequence
    assert finding.mend


@pytest.mark.parametrize("example", wrong_examples.by("stage 2"), ids=str)
def test_what_only_a_run_shows_is_not_guessed(example: Example) -> None:
    assert said(lint(example.name, None, [FOLDER])) == []


@pytest.mark.parametrize("agent", RIGHT)
def test_the_right_agents_are_clean(agent: str) -> None:
    assert said(lint(agent, None, [CLONE / "examples" / "agents"])) == []


def test_every_example_is_in_the_table() -> None:
    there = {path.name for path in FOLDER.iterdir() if path.suffix in (".py", ".yaml")}
    assert there == {row.path.name for row in wrong_examples.rows()}
