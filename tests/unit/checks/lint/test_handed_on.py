"""A client closed in a function that gets it as an argument; a breakpoint that was left; the lint's own line."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.checks.lint.run import lint

AGENT = """
from openai import AsyncOpenAI

class Agent:
    async def run(self, data, **extra_kwargs):
        client = AsyncOpenAI(base_url=extra_kwargs["base_url"], http_client=extra_kwargs["http_client"])
        await self.tidy({passed})
        return 1.0

    async def tidy(self, one, other=None):
        {body}
"""


def found(tmp_path: Path, passed: str, body: str) -> dict[str, str]:
    (tmp_path / "agent.py").write_text(AGENT.format(passed=passed, body=body))
    report = lint("agent.py:Agent", None, [tmp_path])
    return {finding.id: finding.detail for finding in report.findings}


@pytest.mark.parametrize(
    ("passed", "body"),
    [
        ("client", "await one.close()"),
        ("1, client", "await other.close()"),
        ("1, other=client", "await other.close()"),
        ('extra_kwargs["http_client"]', "await one.aclose()"),
    ],
)
def test_a_client_that_is_closed_where_it_was_handed_to(tmp_path: Path, passed: str, body: str) -> None:
    assert "lint.shared-client-closed" in found(tmp_path, passed, body)


@pytest.mark.parametrize(("passed", "body"), [("open('x')", "one.close()"), ("client, open('x')", "other.close()")])
def test_something_else_that_is_closed(tmp_path: Path, passed: str, body: str) -> None:
    assert "lint.shared-client-closed" not in found(tmp_path, passed, body)


@pytest.mark.parametrize("body", ["breakpoint()", "import pdb; pdb.set_trace()"])
def test_a_breakpoint_that_was_left(tmp_path: Path, body: str) -> None:
    said = found(tmp_path, "client", body)
    assert "lint.left-breakpoint" in said
    assert "1 of which apply" in said["lint.source"]


def test_that_a_run_sees_more_is_said(tmp_path: Path) -> None:
    said = found(tmp_path, "client", "pass")
    assert "a run sees more" in said["lint.source"]
    assert "apply" not in said["lint.source"]
