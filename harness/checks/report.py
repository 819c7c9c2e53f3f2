"""All stages of one call of ``harness check``: the document that is kept, and the same for CI systems."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, Field

from harness.checks.findings import Finding, StageResult, Status, counts
from harness.runs import junit

SCHEMA = 1
"""Raised when a field's meaning changes or one goes; new fields don't count."""


class CheckReport(BaseModel):
    """What ``result.json`` holds."""

    schema_version: int = Field(default=SCHEMA, description="of this document")
    verb: Literal["check"] = "check"
    exit_code: int = 0
    asked: dict[str, Any] = Field(default_factory=dict, description="what was asked for: stages, agent, data, server")
    seed: int | None = Field(default=None, description="gives the same sample again: SEED=")
    stages: tuple[StageResult, ...] = ()
    counts: dict[Status, int] = Field(default_factory=dict)
    seconds: float = 0.0
    ended_early: str = Field(default="", description="why not all stages were run; empty where they were")


def build(stages: Iterable[StageResult], **fields: Any) -> CheckReport:
    """A report on stages; its exit code is 1 as soon as one finding failed."""
    done = tuple(stages)
    failed = any(stage.failed for stage in done)
    seconds = round(sum(stage.seconds for stage in done), 3)
    return CheckReport(stages=done, counts=counts(done), exit_code=int(failed), seconds=seconds, **fields)


def to_junit(report: CheckReport) -> str:
    """The findings as JUnit XML: a suite a stage, a case a finding; warnings are passed cases that say something."""
    return junit.to_xml(
        junit.Suite(
            name=f"drydock.check.stage{stage.stage}",
            cases=[_case(finding) for finding in stage.findings],
            seconds=stage.seconds,
            properties={"seed": str(report.seed)} if report.seed is not None and stage.stage > 1 else {},
        )
        for stage in report.stages
    )


def _case(finding: Finding) -> junit.Case:
    outcome: Literal["passed", "failed", "skipped"] = "passed"
    if finding.status == "fail":
        outcome = "failed"
    elif finding.status in ("skip", "absent"):
        outcome = "skipped"
    place = f"{finding.place.file}:{finding.place.line}" if finding.place else ""
    text = "\n".join(part for part in (finding.detail, finding.consequence, finding.mend, place) if part)
    return junit.Case(
        name=finding.id,
        outcome=outcome,
        message=finding.detail or finding.title,
        text=text,
        seconds=finding.seconds or 0.0,
        file=finding.place.file if finding.place else "",
        line=finding.place.line if finding.place else None,
    )
