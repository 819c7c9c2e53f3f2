"""What the calls of a run show: the arguments that really went out, and how the histories follow each other; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.checks.findings import Finding, Place
from harness.checks.lint import arguments, history
from harness.checks.lint.program import Program
from harness.checks.lint.rule import Rule
from harness.openai_api.calls import Call


def judge(calls: Sequence[Call], program: Program | None) -> list[Finding]:
    """One finding for each rule that some call breaks, the first of them shown.

    Args:
        calls: those that asked a model, in order, with their requests and the lines that made them.
        program: the agent's source, for comments that ignore a rule.
    """
    found: dict[str, list[tuple[Rule, str, Call]]] = {}
    for call in calls:
        for problem in arguments.judge(call.protocol, call.asked):
            detail = f"call {call.number}: {problem.detail}"
            found.setdefault(problem.rule.code, []).append((problem.rule, detail, call))
    for one in history.judge(calls):
        found.setdefault(one.rule.code, []).append((one.rule, one.detail, calls[one.index]))
    findings = []
    for many in found.values():
        kept = [one for one in many if not _ignored(program, one[0].code, one[2].caller)]
        if kept:
            findings.append(_finding(kept))
    return findings


def _finding(many: list[tuple[Rule, str, Call]]) -> Finding:
    rule, detail, call = many[0]
    details = list(dict.fromkeys(one[1].partition(": ")[2] or one[1] for one in many))
    if len(details) > 1 and detail.startswith("call "):
        detail = f"{detail.partition(': ')[0]}: {'; '.join(details[:4])}" if ": " in detail else detail
    numbers = sorted({one[2].number for one in many})
    return rule.finding(
        detail + (f" ({len(numbers)} calls)" if len(numbers) > 1 else ""),
        place=place_of(call.caller),
        facts={"code": rule.code, "calls": numbers},
    )


def place_of(frame: dict[str, Any] | None) -> Place | None:
    """A frame as reports show it."""
    if frame is None:
        return None
    return Place(file=frame["file"], line=frame["line"], function=frame["function"], source=frame["source"])


def _ignored(program: Program | None, code: str, frame: dict[str, Any] | None) -> bool:
    """Whether a comment on the statement that made a call takes a rule out there."""
    if program is None or frame is None:
        return False
    return program.ignores_where(code, frame["file"], frame["line"])
