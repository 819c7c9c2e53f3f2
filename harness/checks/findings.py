"""What a check found: plain data that every stage fills and every report shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Status = Literal["pass", "fail", "warn", "absent", "skip"]
"""pass: as it should be. fail: later stages or training will go wrong. warn: they may. absent: the server doesn't have
it, which is wrong only for those who need it. skip: not looked at, with the reason."""


class Place(BaseModel):
    """A line of the user's code that a finding is about."""

    model_config = ConfigDict(frozen=True)

    file: str
    line: int
    function: str = ""
    source: str = Field(default="", description="the line's text")


class Finding(BaseModel):
    """One thing that was looked at.

    ``id`` never changes its meaning once published: people compare reports by it.
    """

    model_config = ConfigDict(frozen=True)

    id: str = Field(description="stage and subject, `server.streaming`, `run.reward`")
    title: str = Field(description="what was looked at, in a few words")
    status: Status
    detail: str = Field(default="", description="what was seen")
    consequence: str = Field(default="", description="what follows from it later, where something does")
    mend: str = Field(default="", description="what to do about it")
    place: Place | None = Field(default=None, description="the line it is about")
    stack: tuple[Place, ...] = Field(default=(), description="the way there, outermost first, cut to the user's frames")
    facts: dict[str, Any] = Field(default_factory=dict, description="the figures behind it")
    seconds: float | None = Field(default=None, description="how long it took to look")


class StageResult(BaseModel):
    """One stage of a check."""

    stage: int
    title: str
    findings: tuple[Finding, ...] = ()
    figures: dict[str, Any] = Field(default_factory=dict, description="what was measured, whatever the verdict")
    seconds: float = 0.0
    ended_early: str = Field(default="", description="why the stage ended before it was done; empty where it did not")

    def count(self, status: Status) -> int:
        """How many findings have a status."""
        return sum(finding.status == status for finding in self.findings)

    @property
    def failed(self) -> bool:
        """Whether something is wrong."""
        return self.count("fail") > 0


def counts(stages: Iterable[StageResult]) -> dict[Status, int]:
    """Findings by status over all stages, every status named."""
    stages = list(stages)
    every: tuple[Status, ...] = ("pass", "fail", "warn", "absent", "skip")
    return {status: sum(stage.count(status) for stage in stages) for status in every}
