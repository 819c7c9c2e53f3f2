"""The examples that a reader copies are right by our own checks."""

from __future__ import annotations

import pytest

from tests.scenarios.checks.conftest import Checker
from tests.support.harness import CLONE

EXAMPLES = CLONE / "examples"


@pytest.mark.parametrize(
    ("agent", "data", "path"),
    [
        ("single_turn.py:SingleTurn", "capitals", "/v1/chat/completions"),
        ("tool_use.py:ToolUse", "arithmetic", "/v1/chat/completions"),
        ("anthropic_agent.py:AnthropicAgent", "capitals", "/v1/messages"),
    ],
)
def test_an_example_passes(check: Checker, agent: str, data: str, path: str) -> None:
    done = check.command_here(
        "--stage",
        "2",
        "--agent",
        str(EXAMPLES / "agents" / agent),
        "--data",
        str(EXAMPLES / "data" / f"{data}.jsonl"),
    )
    assert done.code == 0, str(done)
    assert {finding["status"] for finding in done.findings.values()} == {"pass"}
    assert check.model.requests[-1][0] == path
    assert done.findings["run.reward"]["facts"]["type"] == "float"
