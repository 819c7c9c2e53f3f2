"""What the difference of two log-probs of the same tokens comes to, in the figures that trainers log. Pure.

Throughout, d = trainer's log-prob − engine's log-prob of a sampled token, and ρ = exp(d) the importance ratio. Where a
formula takes exp of something, that is kept within ±20, as verl does. Tokens with a log-prob that isn't finite on one
side are counted, and left out of all else.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

BOUND = 20.0
# Caps at which truncated and masked importance sampling are shown; 2 is verl's default, 5 the widest in common use.
CAPS = (2.0, 5.0)


@dataclass
class Figures:
    """See docs/compare.md for each, with its source.

    Args:
        tokens: that were compared; ``not_finite`` more were not.
        abs_max, abs_mean, abs_p99: of |d|.
        k1: mean of −d; k3: mean of ρ − 1 − d; both estimate KL(engine ‖ trainer).
        mult_prob_error: mean of exp|d|.
        prob_mean, prob_max: of the difference of the probabilities.
        pearson: correlation of the probabilities; NaN where one side doesn't vary.
        ppl_ratio: mean over samples of the trainer's perplexity over the engine's.
        log_ppl_abs: mean over samples of the difference of their logarithms.
        chi2_token, chi2_seq: mean of ρ² − 1, over tokens and over whole samples.
        outside: share of tokens with ρ outside [0.5, 2].
        truncated: by cap C, share of tokens with ρ > C, which truncated importance sampling cuts to C.
        masked: by cap C, share of tokens with ρ outside [1/C, C], which masked importance sampling leaves out.
        ess: effective sample size of ρ, as a share of all tokens.
        greedy: share of positions where both call the same token most likely; NaN where one side doesn't say.
        divergence: median over samples of how many tokens come before the first such disagreement.
        undiverged: share of samples without any.
    """

    tokens: int = 0
    samples: int = 0
    not_finite: int = 0
    abs_max: float = math.nan
    abs_mean: float = math.nan
    abs_p99: float = math.nan
    k1: float = math.nan
    k3: float = math.nan
    mult_prob_error: float = math.nan
    prob_mean: float = math.nan
    prob_max: float = math.nan
    pearson: float = math.nan
    ppl_ratio: float = math.nan
    log_ppl_abs: float = math.nan
    chi2_token: float = math.nan
    chi2_seq: float = math.nan
    outside: float = math.nan
    truncated: dict[str, float] = field(default_factory=dict)
    masked: dict[str, float] = field(default_factory=dict)
    ess: float = math.nan
    greedy: float = math.nan
    divergence: float = math.nan
    undiverged: float = math.nan

    def as_dict(self) -> dict[str, Any]:
        """For JSON, where NaN is null."""
        return {name: _plain(value) for name, value in asdict(self).items()}


class Tally:
    """Adds up what figures need, a sample at a time; eight bytes a token stay, for the percentile."""

    def __init__(self) -> None:
        self._absolute = array("d")
        self._samples = 0
        self._not_finite = 0
        self._sums: dict[str, float] = dict.fromkeys(
            ("d", "k3", "mult", "prob", "rho", "rho2", "a", "b", "aa", "bb", "ab", "ppl", "log_ppl", "chi2_seq"), 0.0
        )
        self._prob_max = 0.0
        self._outside = 0
        self._over = dict.fromkeys(CAPS, 0)
        self._beyond = dict.fromkeys(CAPS, 0)
        self._top_same = self._top_all = self._undiverged = 0
        self._until = array("q")

    def add(
        self,
        engine: Sequence[float],
        trainer: Sequence[float],
        engine_top: Sequence[int] = (),
        trainer_top: Sequence[int] = (),
    ) -> None:
        """One sample: log-probs of its tokens by both, and, where known, the most likely token at each position."""
        total = seen = 0.0
        for a, b in zip(engine, trainer, strict=True):
            if not (math.isfinite(a) and math.isfinite(b)):
                self._not_finite += 1
                continue
            self._token(a, b)
            total += b - a
            seen += 1
        if seen:
            self._samples += 1
            self._sums["ppl"] += math.exp(_bounded(-total / seen))
            self._sums["log_ppl"] += abs(total / seen)
            self._sums["chi2_seq"] += math.exp(2 * _bounded(total))
        self._tops(engine_top, trainer_top)

    def _token(self, a: float, b: float) -> None:
        sums, d = self._sums, b - a
        rho, p, q = math.exp(_bounded(d)), math.exp(a), math.exp(b)
        self._absolute.append(abs(d))
        for name, value in (
            ("d", d), ("k3", rho - 1 - d), ("mult", math.exp(_bounded(abs(d)))), ("prob", abs(p - q)),
            ("rho", rho), ("rho2", rho * rho), ("a", p), ("b", q), ("aa", p * p), ("bb", q * q), ("ab", p * q),
        ):  # fmt: skip
            sums[name] += value
        self._prob_max = max(self._prob_max, abs(p - q))
        self._outside += not 0.5 <= rho <= 2
        for cap in CAPS:
            self._over[cap] += rho > cap
            self._beyond[cap] += not 1 / cap <= rho <= cap

    def _tops(self, engine: Sequence[int], trainer: Sequence[int]) -> None:
        if not engine or len(engine) != len(trainer):
            return
        same = [one == other for one, other in zip(engine, trainer, strict=True)]
        self._top_all += len(same)
        self._top_same += sum(same)
        self._undiverged += all(same)
        self._until.append(same.index(False) if False in same else len(same))

    def figures(self) -> Figures:
        """What it comes to."""
        n, sums = len(self._absolute), self._sums
        found = Figures(tokens=n, samples=self._samples, not_finite=self._not_finite)
        if self._top_all:
            found.greedy = self._top_same / self._top_all
            found.divergence = percentile(self._until, 0.5)
            found.undiverged = self._undiverged / len(self._until)
        if not n:
            return found
        found.abs_max, found.abs_mean = max(self._absolute), math.fsum(self._absolute) / n
        found.abs_p99 = percentile(self._absolute, 0.99)
        found.k1, found.k3 = -sums["d"] / n, sums["k3"] / n
        found.mult_prob_error = sums["mult"] / n
        found.prob_mean, found.prob_max = sums["prob"] / n, self._prob_max
        found.pearson = self._pearson(n)
        found.ppl_ratio, found.log_ppl_abs = sums["ppl"] / self._samples, sums["log_ppl"] / self._samples
        found.chi2_token, found.chi2_seq = sums["rho2"] / n - 1, sums["chi2_seq"] / self._samples - 1
        found.outside = self._outside / n
        found.truncated = {f"{cap:g}": self._over[cap] / n for cap in CAPS}
        found.masked = {f"{cap:g}": self._beyond[cap] / n for cap in CAPS}
        found.ess = sums["rho"] ** 2 / (n * sums["rho2"])
        return found

    def _pearson(self, n: int) -> float:
        sums = self._sums
        covariance = sums["ab"] - sums["a"] * sums["b"] / n
        spread = (sums["aa"] - sums["a"] ** 2 / n) * (sums["bb"] - sums["b"] ** 2 / n)
        # A spread of rounding errors alone is none.
        return covariance / math.sqrt(spread) if spread > 1e-24 * n * n else math.nan


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which a share lies, between neighbours in a straight line."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * share
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def mean_abs(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    """Mean |d| over all tokens of a few samples; NaN where nothing is finite."""
    found = [
        abs(b - a)
        for engine, trainer in pairs
        for a, b in zip(engine, trainer, strict=False)
        if math.isfinite(a) and math.isfinite(b)
    ]
    return sum(found) / len(found) if found else math.nan


def _bounded(value: float) -> float:
    return max(-BOUND, min(BOUND, value))


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
