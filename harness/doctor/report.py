"""What a run of the doctor came to: counts, the exit code, the JSON document."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from harness.doctor.findings import Finding, Sign
from harness.doctor.running import Outcome


@dataclass(frozen=True)
class Report:
    """All outcomes of one run.

    Attributes:
        seconds: how long it took.
        limit: seconds that checks were given; a busy machine gets more.
    """

    outcomes: tuple[Outcome, ...]
    seconds: float
    limit: float = 0.0

    @property
    def findings(self) -> list[Finding]:
        return [finding for outcome in self.outcomes for finding in outcome.findings]

    @property
    def fine(self) -> bool:
        """Nothing is wrong; warnings don't count."""
        return not any(finding.sign == "bad" for finding in self.findings)

    @property
    def exit_code(self) -> int:
        return 0 if self.fine else 1

    @property
    def finished(self) -> bool:
        """Every check came to its end; False means that threads of ours still wait for something."""
        return all(outcome.finished for outcome in self.outcomes)

    def counts(self) -> dict[Sign, int]:
        """How many findings there are of each sign."""
        found = Counter(finding.sign for finding in self.findings)
        signs: tuple[Sign, ...] = ("bad", "warn", "ok", "note")
        return {sign: found[sign] for sign in signs}

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "fine": self.fine,
            "counts": self.counts(),
            "seconds": round(self.seconds, 2),
            "limit": round(self.limit, 2),
            "findings": [
                {
                    "topic": outcome.check.topic,
                    "check": outcome.check.id,
                    "sign": finding.sign,
                    "text": finding.text,
                    "consequence": finding.consequence,
                    "mend": finding.mend.splitlines(),
                    "fix": list(finding.fix),
                }
                for outcome in self.outcomes
                for finding in outcome.findings
            ],
            "checks": [
                {"check": o.check.id, "seconds": round(o.seconds, 2), "finished": o.finished} for o in self.outcomes
            ],
        }


def summary(report: Report) -> str:
    """The counted line that the report ends with."""
    counts = report.counts()
    parts = [
        f"{counts['bad']} wrong",
        f"{counts['warn']} warning{'s' * (counts['warn'] != 1)}",
        f"{counts['ok']} fine",
        f"{counts['note']} note{'s' * (counts['note'] != 1)}",
    ]
    return f"{', '.join(parts)} ({report.seconds:.1f} s)"
