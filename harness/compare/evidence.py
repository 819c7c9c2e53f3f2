"""What a verdict stands on, and what it says. Plain data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from harness.compare.figures import Figures
from harness.compare.limits import Held
from harness.compare.model import Sampling
from harness.compare.profile import Profile
from harness.compare.tokens import TokenReport

Certainty = Literal["certain", "likely", "undecided"]


@dataclass(frozen=True)
class Trial:
    """Something that could be different on the engine's side, tried on the reference's.

    Args:
        kind: ``temperature``, ``top_p``, ``top_k``, ``sampling``, ``rope``, ``bos``.
        what: in words.
        view: sampling parameters; see ``driver.scoring``.
        change: another rope; see ``driver.model``.
        bos: put the first token before each prompt (1), or take it off (−1).
    """

    kind: str
    what: str
    view: dict[str, float] = field(default_factory=dict)
    change: dict[str, Any] | None = None
    bos: int = 0


@dataclass(frozen=True)
class Tried:
    """What came of it: mean |d| of the same few samples, before and with it."""

    trial: Trial
    before: float
    after: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "kind": self.trial.kind,
            "what": self.trial.what,
            "before": self.before,
            "after": self.after if math.isfinite(self.after) else None,
        }


@dataclass
class Evidence:
    """All that is known when the verdict is sought.

    Args:
        judged: the engine's log-probs as they were sampled against the trainer's.
        reading: engine's prefill against the trainer's; None where the engine can't.
        inside: engine's decode against its prefill, likewise.
        rounding: the reference in two precisions against itself; None where only one was run.
        other: engine's decode against the reference in its second precision.
        held: limits against the judged figures.
        parts: what is compared, for sentences: ("the server", "transformers").
        dtypes: of the reference: the one that is judged, then the other.
        early: the comparison was ended after the first samples.
        files: of weights and configuration that the server was started from and that aren't the reference's.
        against: what takes the reference's place: ``server``, ``batch``, ``cache`` or ``run``; "" for the reference.
    """

    judged: Figures
    profile: Profile
    held: Sequence[Held]
    tokens: TokenReport
    sampling: Sampling
    reading: Figures | None = None
    inside: Figures | None = None
    rounding: Figures | None = None
    other: Figures | None = None
    tried: Sequence[Tried] = ()
    dtypes: Sequence[str] = ()
    early: bool = False
    rope: dict[str, Any] = field(default_factory=dict)
    files: Sequence[str] = ()
    against: str = ""


@dataclass
class Reason:
    """One answer.

    Args:
        id: for machines.
        what: one sentence.
        because: what speaks for it, with numbers.
        next: what to do.
    """

    id: str
    certainty: Certainty
    what: str
    because: list[str] = field(default_factory=list)
    next: list[str] = field(default_factory=list)


@dataclass
class Verdict:
    """Whether both sides agree, and why not.

    Args:
        agree: within the chosen limits, on the same tokens.
        reasons: the first is the one meant; more where it is undecided, or where two faults are there at once.
    """

    agree: bool
    reasons: list[Reason] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 where they agree, else 1."""
        return 0 if self.agree else 1

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)
