"""The lines that a person reads: a heading a topic, a line a finding, below it what follows and what mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from harness import console
from harness.doctor.findings import Finding, Sign
from harness.doctor.report import Report, summary
from harness.doctor.running import Outcome

SAY: dict[Sign, Callable[[str], None]] = {
    "ok": console.ok,
    "bad": console.bad,
    "warn": console.warn,
    "note": console.note,
}


def show_as_they_come(outcomes: Iterable[Outcome], titles: dict[str, str]) -> Iterator[Outcome]:
    """Print outcomes as they come, and hand them on."""
    topic = ""
    for outcome in outcomes:
        if outcome.check.topic != topic:
            if topic:
                console.line()
            topic = outcome.check.topic
            console.heading(titles[topic])
        for finding in outcome.findings:
            show(finding)
        yield outcome


def show(finding: Finding) -> None:
    """Print one finding."""
    SAY[finding.sign](finding.text)
    if finding.consequence:
        console.line(f"  {finding.consequence}")
    for command in finding.mend.splitlines():
        console.mend(command)


def show_summary(report: Report) -> None:
    """Print the counted last line."""
    console.line()
    sign: Sign = "bad" if not report.fine else "warn" if report.counts()["warn"] else "ok"
    SAY[sign](summary(report))
