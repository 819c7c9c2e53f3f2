"""Two checks held against each other: which findings changed, which figures, and what else was different. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.checks.findings import Finding, Status
from harness.checks.report import CheckReport
from harness.errors import NoSuchRun

# The worse, the larger; what wasn't looked at is neither.
_WORSE: dict[Status, int] = {"pass": 0, "skip": 0, "absent": 1, "warn": 2, "fail": 3}
# Figures of two runs differ by chance; what changed by less isn't told.
_NOTABLE = 0.05
_BEYOND = 1e300


@dataclass(frozen=True)
class Change:
    """A finding that isn't what it was; a status is empty where the finding wasn't there."""

    id: str
    title: str
    before: Status | None
    after: Status | None
    detail_before: str
    detail_after: str

    @property
    def worse(self) -> bool:
        """Whether it got worse."""
        return _WORSE[self.after or "pass"] > _WORSE[self.before or "pass"]

    @property
    def better(self) -> bool:
        """Whether it got better."""
        return _WORSE[self.after or "pass"] < _WORSE[self.before or "pass"]


@dataclass(frozen=True)
class Moved:
    """A figure that isn't what it was; ``ratio`` is after ÷ before, None where that says nothing."""

    name: str
    before: float
    after: float
    ratio: float | None


@dataclass(frozen=True)
class Comparison:
    """What differs between two checks.

    Args:
        before, after: names of their folders.
        asked: what was asked for, where it differs: name, before, after.
        environment: versions that differ: name, before, after.
    """

    before: str
    after: str
    changes: tuple[Change, ...]
    figures: tuple[Moved, ...]
    asked: tuple[tuple[str, str, str], ...]
    environment: tuple[tuple[str, str, str], ...]

    @property
    def worse(self) -> int:
        """How many findings got worse."""
        return sum(change.worse for change in self.changes)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "worse": self.worse}


@dataclass(frozen=True)
class Kept:
    """A check as it lies in its folder."""

    name: str
    report: CheckReport
    environment: Mapping[str, Any]


def read(folder: Path) -> Kept:
    """Read a check's folder.

    Raises:
        NoSuchRun: it isn't one of a check, or of one by another Drydock.
    """
    try:
        report = CheckReport.model_validate_json((folder / "result.json").read_text("utf-8"))
    except (OSError, ValueError):
        raise NoSuchRun(
            f"{folder} holds no result of a check", mend="make runs   # those of checks end in -check"
        ) from None
    try:
        environment = json.loads((folder / "environment.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        environment = {}
    return Kept(folder.name, report, environment if isinstance(environment, dict) else {})


def compare(before: Kept, after: Kept) -> Comparison:
    """What differs from one check to another."""
    old, new = _findings(before.report), _findings(after.report)
    changes = [
        Change(
            id_,
            (new.get(id_) or old[id_]).title,
            old[id_].status if id_ in old else None,
            new[id_].status if id_ in new else None,
            old[id_].detail if id_ in old else "",
            new[id_].detail if id_ in new else "",
        )
        for id_ in [*new, *(id_ for id_ in old if id_ not in new)]
        if id_ not in old or id_ not in new or old[id_].status != new[id_].status
    ]
    changes.sort(key=lambda change: (not change.worse, not change.better))
    return Comparison(
        before.name,
        after.name,
        tuple(changes),
        tuple(_moved(before.report, after.report)),
        tuple(_unequal(before.report.asked, after.report.asked)),
        tuple(_unequal(_versions(before.environment), _versions(after.environment))),
    )


def _findings(report: CheckReport) -> dict[str, Finding]:
    """By id; where a stage says the same thing several times, the worst counts."""
    found: dict[str, Finding] = {}
    for stage in report.stages:
        for finding in stage.findings:
            known = found.get(finding.id)
            if known is None or _WORSE[finding.status] > _WORSE[known.status]:
                found[finding.id] = finding
    return found


def _moved(before: CheckReport, after: CheckReport) -> Iterator[Moved]:
    old = {stage.stage: dict(_numbers(stage.figures)) for stage in before.stages}
    for stage in after.stages:
        for name, value in _numbers(stage.figures):
            was = old.get(stage.stage, {}).get(name)
            if was is None or was == value or name.split(".")[0] in ("seed", "line", "run"):
                continue
            ratio = value / was if was else None
            if ratio is None or abs(ratio - 1) >= _NOTABLE:
                yield Moved(f"stage {stage.stage}: {name.replace('_', ' ')}", was, value, ratio)


def _numbers(value: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, float]]:
    for key, item in value.items():
        if isinstance(item, (int, float)) and not isinstance(item, bool):
            if abs(item) < _BEYOND:  # neither endless nor no number
                yield before + key, float(item)
        elif isinstance(item, dict) and key != "sample":
            yield from _numbers(item, f"{before}{key}.")


def _versions(environment: Mapping[str, Any]) -> dict[str, Any]:
    packages = environment.get("packages")
    plain = {key: value for key, value in environment.items() if isinstance(value, (str, int))}
    return {**plain, **(packages if isinstance(packages, dict) else {})}


def _unequal(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            yield key, str(before.get(key, "–")), str(after.get(key, "–"))
