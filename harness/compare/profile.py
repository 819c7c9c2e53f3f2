"""Where a difference sits: at which positions, after which tokens, in which samples, or one token beside. Pure."""

from __future__ import annotations

import heapq
import math
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

_SCATTER = 2000
_WORST = 5


@dataclass
class Bucket:
    """Some tokens together."""

    count: int = 0
    total: float = 0.0

    def add(self, value: float) -> None:
        """One more."""
        self.count += 1
        self.total += value

    @property
    def mean(self) -> float:
        """Mean |d|."""
        return self.total / self.count if self.count else math.nan


@dataclass
class Profile:
    """Of the difference between two sides.

    Args:
        positions: mean |d| by position in prompt and output together: (from, to, tokens, mean).
        outputs: the same by position in the output alone.
        shifted: mean |d| if the engine's log-probs are moved by −1, 0 or 1 tokens, over the same tokens.
        tokens: the ten sampled tokens with the largest share of all |d|: (id, times, mean, share).
        after: the same by the token before.
        samples: mean |d| of each sample, with its number.
        worst: numbers of the five samples with the largest mean |d|.
        positive: share of tokens whose log-prob is larger on the engine's side.
        scatter: (engine's, trainer's) log-probs of at most 2,000 tokens, drawn evenly.
        histogram: tokens by d: counts in 41 equal steps from −edge to edge, those beyond in the outermost.
    """

    positions: list[tuple[int, int, int, float]] = field(default_factory=list)
    outputs: list[tuple[int, int, int, float]] = field(default_factory=list)
    shifted: dict[int, float] = field(default_factory=dict)
    tokens: list[tuple[int, int, float, float]] = field(default_factory=list)
    after: list[tuple[int, int, float, float]] = field(default_factory=list)
    samples: list[tuple[int, float, int]] = field(default_factory=list)
    worst: list[int] = field(default_factory=list)
    positive: float = math.nan
    scatter: list[tuple[float, float]] = field(default_factory=list)
    differences: list[float] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; what only a picture needs is left out."""
        found = asdict(self)
        for name in ("scatter", "differences", "samples"):
            found.pop(name)
        return found


class Profiler:
    """Takes the differences apart, a sample at a time."""

    def __init__(self) -> None:
        self._by_position: dict[int, Bucket] = defaultdict(Bucket)
        self._by_output: dict[int, Bucket] = defaultdict(Bucket)
        self._by_token: dict[int, Bucket] = defaultdict(Bucket)
        self._by_before: dict[int, Bucket] = defaultdict(Bucket)
        self._shift = {-1: Bucket(), 0: Bucket(), 1: Bucket()}
        self._samples: list[tuple[int, float, int]] = []
        self._positive = self._all = 0
        self._drawn: list[tuple[float, float]] = []
        self._random = random.Random(1)

    def add(
        self,
        number: int,
        prompt: Sequence[int],
        output: Sequence[int],
        engine: Sequence[float],
        trainer: Sequence[float],
    ) -> None:
        """One sample."""
        own = Bucket()
        for place, (token, a, b) in enumerate(zip(output, engine, trainer, strict=True)):
            if not (math.isfinite(a) and math.isfinite(b)):
                continue
            size = abs(b - a)
            own.add(size)
            self._by_position[(len(prompt) + place).bit_length()].add(size)
            self._by_output[place.bit_length()].add(size)
            self._by_token[token].add(size)
            before = output[place - 1] if place else (prompt[-1] if prompt else -1)
            self._by_before[before].add(size)
            self._positive += a > b
            self._draw(a, b)
            if 0 < place < len(output) - 1:
                for shift, bucket in self._shift.items():
                    moved = engine[place + shift]
                    if math.isfinite(moved):
                        bucket.add(abs(b - moved))
        if own.count:
            self._samples.append((number, own.mean, own.count))

    def _draw(self, a: float, b: float) -> None:
        """Reservoir sampling: each token has the same chance, however many come."""
        self._all += 1
        if len(self._drawn) < _SCATTER:
            self._drawn.append((a, b))
        elif (place := self._random.randrange(self._all)) < _SCATTER:
            self._drawn[place] = (a, b)

    def profile(self) -> Profile:
        """What it comes to."""
        return Profile(
            positions=_ranges(self._by_position),
            outputs=_ranges(self._by_output),
            shifted={shift: bucket.mean for shift, bucket in self._shift.items()},
            tokens=_largest(self._by_token),
            after=_largest(self._by_before),
            samples=self._samples,
            worst=[number for number, _, _ in heapq.nlargest(_WORST, self._samples, key=lambda one: one[1])],
            positive=self._positive / self._all if self._all else math.nan,
            scatter=self._drawn,
            differences=[b - a for a, b in self._drawn],
        )


def _ranges(buckets: dict[int, Bucket]) -> list[tuple[int, int, int, float]]:
    """Buckets of doubling width, by the number of a position's bits."""
    return [
        (0 if bits == 0 else 1 << (bits - 1), (1 << bits) - 1 if bits else 0, bucket.count, bucket.mean)
        for bits, bucket in sorted(buckets.items())
    ]


def _largest(buckets: dict[int, Bucket]) -> list[tuple[int, int, float, float]]:
    total = math.fsum(bucket.total for bucket in buckets.values()) or 1.0
    first = heapq.nlargest(10, buckets.items(), key=lambda item: item[1].total)
    return [(token, bucket.count, bucket.mean, bucket.total / total) for token, bucket in first]
