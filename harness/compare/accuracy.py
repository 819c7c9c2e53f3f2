"""Task accuracy of both sides by a reward function of the user's. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Accuracy:
    """Mean rewards of the same prompts.

    Args:
        function: as the user named it.
        samples: that have a reward on both sides.
        engine, reference: mean rewards.
        difference: reference less engine.
        error: its standard error, prompt by prompt; NaN with fewer than two samples.
        problems: samples without a reward on one side, by what was said.
    """

    function: str
    samples: int
    engine: float
    reference: float
    difference: float
    error: float
    problems: dict[str, int] = field(default_factory=dict)

    @property
    def by_chance(self) -> bool | None:
        """Whether the difference is within two standard errors; None where that isn't known."""
        if not math.isfinite(self.error):
            return None
        return abs(self.difference) <= 2 * self.error

    def text(self) -> str:
        """One sentence."""
        if not self.samples:
            return f"rewards: {self.function} gave none on both sides"
        words = {None: "", True: ", which chance alone makes", False: ", which is more than chance makes"}
        chance = words[self.by_chance] if self.difference else ""
        error = f" ± {self.error:.3f}" if math.isfinite(self.error) else ""
        return (
            f"rewards ({self.function}): engine {self.engine:.3f}, the trainer's model {self.reference:.3f}; "
            f"{self.samples} prompts, difference {self.difference:+.3f}{error}{chance}"
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON, where NaN is null."""
        found = {**asdict(self), "by_chance": self.by_chance}
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in found.items()
        }


def accuracy(function: str, rows: Iterable[dict[str, Any]]) -> Accuracy:
    """What it comes to.

    Args:
        rows: one a sample, with ``engine`` and ``reference``: ``{"reward": number}`` or ``{"error": sentence}``.
    """
    pairs: list[tuple[float, float]] = []
    problems = Counter[str]()
    for row in rows:
        both = (row["engine"], row["reference"])
        for side in both:
            if "error" in side:
                problems[side["error"]] += 1
        if all("reward" in side for side in both):
            pairs.append((both[0]["reward"], both[1]["reward"]))
    n = len(pairs)
    engine = math.fsum(a for a, _ in pairs) / n if n else math.nan
    reference = math.fsum(b for _, b in pairs) / n if n else math.nan
    spread = math.fsum((b - a - (reference - engine)) ** 2 for a, b in pairs) / (n - 1) if n > 1 else math.nan
    return Accuracy(function, n, engine, reference, reference - engine, math.sqrt(spread / n) if n > 1 else math.nan,
                    dict(problems.most_common(5)))  # fmt: skip
