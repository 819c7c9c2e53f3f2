"""A check for a person: a line a finding, what follows from it and what to do, a summary, and where the report is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.status import Status as RichStatus

from harness import console
from harness.checks.findings import Finding, Place, StageResult, Status
from harness.checks.report import CheckReport
from harness.runs import Redactor
from harness.runs import shown as shown_folder

# Stage 1 says which of two dozen things a server has; those that are all right fit on few lines.
_WORDS: dict[Status, str] = {
    "pass": "passed",
    "fail": "failed",
    "warn": "warned",
    "absent": "absent",
    "skip": "not looked at",
}


# Seconds between lines where there is no terminal on which one line could change.
PLAIN_EVERY = 5.0


class Progress:
    """Shows on a terminal what is being done now; each stage's lines take its place when it has ended.

    Args:
        as_typed: makes of a finding's command the one that this person types.
    """

    def __init__(self, as_typed: Callable[[str], str] = str) -> None:
        self._as_typed = as_typed
        self._status: RichStatus | None = None
        self._title = ""
        self._told = 0.0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def begins(self, number: int, title: str) -> None:
        """A stage begins."""
        self._title = f"stage {number}: {title}"
        self._told = time.monotonic()
        if console.on_terminal():
            self._status = console.out().status(escape(self._title))
            self._status.start()

    def tells(self, text: str) -> None:
        """Something is being done."""
        if self._status is not None:
            self._status.update(escape(f"{self._title} ({text})"))
        elif time.monotonic() - self._told >= PLAIN_EVERY:
            self._told = time.monotonic()
            console.note(text)

    def ends(self, result: StageResult) -> None:
        """A stage has ended."""
        self._stop()
        stage(result, self._as_typed)

    def _stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def stage(result: StageResult, as_typed: Callable[[str], str] = str) -> None:
    """Print one stage."""
    console.heading(f"Stage {result.stage}: {result.title}")
    for finding in result.findings:
        if finding.status != "skip":
            show_finding(finding, as_typed)
    # One reason leaves many things unasked; it is told once.
    for reason, titles in _skipped(result.findings).items():
        console.note(f"{reason}: {', '.join(titles)}")
    if result.ended_early:
        console.note(f"the stage ended early: {result.ended_early}")
    if line := _figures(result.figures):
        console.note(line)
    console.line()


def summary(report: CheckReport, folder: Path | None, *, next_steps: Sequence[str]) -> None:
    """Print the counts, where the report is, and what to do next."""
    parts = [f"{count} {_WORDS[status]}" for status, count in report.counts.items() if count]
    text = f"{', '.join(parts) or 'nothing was checked'} in {report.seconds:.1f} s"
    if report.exit_code == 0:
        console.ok(text)
    else:
        console.bad(text)
    if report.seed is not None:
        console.note(f"SEED={report.seed} takes the same sample again")
    if folder is not None:
        console.note(f"report: {_short(shown_folder(folder))}")
    for step in next_steps:
        console.mend(step)


def _skipped(findings: Sequence[Finding]) -> dict[str, list[str]]:
    """Titles of what was not looked at, by the reason."""
    by_reason: dict[str, list[str]] = {}
    for finding in findings:
        if finding.status == "skip":
            by_reason.setdefault(finding.detail, []).append(finding.title)
    return by_reason


def show_finding(finding: Finding, as_typed: Callable[[str], str] = str) -> None:
    """Print one finding: what was seen, where, what follows, what to do."""
    # A key that stands in a line of the agent's isn't shown on a terminal either, which others may see or record.
    safe = Redactor().text
    text = safe(f"{finding.title}: {finding.detail}" if finding.detail else finding.title)
    if finding.status == "pass":
        console.ok(text)
        return
    if finding.status == "fail":
        console.bad(text)
    elif finding.status == "warn":
        console.warn(text)
    else:
        console.note(f"{text} (absent)")
    for place in _stack(finding):
        console.line(f"    {safe(_where(place))}")
    if finding.consequence:
        console.line(f"    {safe(finding.consequence)}")
    for line in finding.mend.splitlines():
        console.mend(safe(as_typed(line)))


def _stack(finding: Finding) -> Sequence[Place]:
    if finding.stack:
        return finding.stack
    return [finding.place] if finding.place is not None else []


def _where(place: Place) -> str:
    function = f" in {place.function}" if place.function else ""
    source = f"   {place.source}" if place.source else ""
    return f"{_short(place.file)}:{place.line}{function}{source}"


def _short(file: str) -> str:
    """A path as one would type it from here, where that is shorter."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file


def _figures(figures: dict[str, Any]) -> str:
    """The figures of a run in one line."""
    shown = []
    for key, words in (
        ("calls", "calls: {}"),
        ("runs_per_second", "{} runs/s"),
        ("tokens_per_second", "{} tokens/s"),
        ("prompt_tokens", "{} tokens in"),
        ("completion_tokens", "{} out"),
        ("run_seconds", "{:.2f} s in all"),
        ("model_seconds", "{:.2f} s of it with the model"),
        ("cpu_seconds", "{:.2f} s of CPU"),
    ):
        if figures.get(key):
            shown.append(words.format(figures[key]))
    if "line" in figures:
        shown.insert(0, f"sample of line {figures['line']}")
    return ", ".join(shown)
