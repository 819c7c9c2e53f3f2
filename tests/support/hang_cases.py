"""Reads the cases of tests/hang_cases and scores verdicts against their truth."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from harness.hang.decide import diagnose
from harness.hang.readers import read
from harness.hang.verdict import Verdict

ROOT = Path(__file__).resolve().parent.parent / "hang_cases"


@dataclass
class Case:
    """One input and its truth; the README beside the cases says what the fields mean."""

    folder: Path
    accept: list[str]
    laggards: list[str]
    tie: list[str] = field(default_factory=list)
    state: str = "hung"
    known: bool = True
    best: str = ""
    input: str = ""

    @property
    def name(self) -> str:
        """Set and case."""
        return f"{self.folder.parent.name}/{self.folder.name}"

    def verdict(self) -> Verdict:
        """What the rules say of it."""
        return diagnose(read(str(self.folder / self.input) if self.input else str(self.folder)))


@dataclass
class Score:
    """A verdict against the truth."""

    case: Case
    verdict: Verdict

    @property
    def cause_right(self) -> bool:
        """An undecided verdict must hold a right code and none that could be told apart from it."""
        verdict, case = self.verdict, self.case
        if verdict.confidence != "undecided" or verdict.cause in ("none", "unknown"):
            return verdict.cause in case.accept
        named = set(verdict.candidates) or {verdict.cause}
        return bool(named & set(case.accept)) and named <= {*case.accept, *case.tie}

    @property
    def laggards_right(self) -> bool:
        """All of them and nobody else."""
        return set(self.verdict.laggards) == set(self.case.laggards)

    @property
    def false_alarm(self) -> bool:
        """Called hung although it isn't."""
        return self.verdict.hangs and self.case.state != "hung"

    @property
    def certain_and_wrong(self) -> bool:
        """The worst that a diagnosis can be."""
        return self.verdict.confidence == "certain" and not self.cause_right

    def __str__(self) -> str:
        verdict, case = self.verdict, self.case
        said = f"{verdict.state} {verdict.cause} {verdict.confidence} {verdict.candidates} {verdict.laggards}"
        return f"{case.name}: said {said}; truth {case.state} {case.accept} {case.laggards}"


def cases(name: str) -> list[Case]:
    """The cases of one set."""
    found = []
    for path in sorted((ROOT / name).glob("*/truth.json")):
        truth = json.loads(path.read_text(encoding="utf-8"))
        known = {key: value for key, value in truth.items() if key in Case.__dataclass_fields__}
        found.append(Case(folder=path.parent, **known))
    return found


def scores(name: str) -> list[Score]:
    """Every case of a set with its verdict."""
    return [Score(case, case.verdict()) for case in cases(name)]


def table(listed: Iterable[Score]) -> str:
    """The confusion table: what it was, what was said, how often."""
    pairs: Counter[tuple[str, str]] = Counter()
    for score in listed:
        said = score.verdict.cause
        if score.verdict.confidence == "undecided" and score.verdict.candidates:
            said = " | ".join(score.verdict.candidates)
        pairs[(score.case.best or score.case.accept[0], said)] += 1
    width = max((len(truth) for truth, _ in pairs), default=0)
    return "\n".join(f"  {truth:<{width}}  {number:>3} × {said}" for (truth, said), number in sorted(pairs.items()))
