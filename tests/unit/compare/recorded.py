"""Arrays as an engine and a trainer would leave them, made by rule; no model, no server."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from harness.compare import limits
from harness.compare.evidence import Evidence, Tried
from harness.compare.figures import Figures, Tally
from harness.compare.model import Sampling
from harness.compare.profile import Profiler
from harness.compare.tokens import TokenReport

# Mean |d| that rounding to bfloat16 makes of SmolLM2-135M, as measured.
ROUNDING = 0.034


@dataclass
class Recorded:
    """Log-probs of some samples: the engine's when sampling and when reading, the trainer's in two dtypes."""

    decode: list[list[float]]
    prefill: list[list[float]]
    reference: list[list[float]]
    other: list[list[float]]
    outputs: list[list[int]] = field(default_factory=list)
    prompt: list[int] = field(default_factory=lambda: [5] * 12)


def agreeing(samples: int = 32, tokens: int = 64, seed: int = 1, rounding: float = ROUNDING) -> Recorded:
    """The same model everywhere, rounded independently each time."""
    drawn = random.Random(seed)
    truth = [[-drawn.expovariate(1.2) for _ in range(tokens)] for _ in range(samples)]

    def rounded(size: float) -> list[list[float]]:
        return [[min(-1e-6, value + drawn.gauss(0, size) * min(1.0, -value)) for value in row] for row in truth]

    return Recorded(
        rounded(rounding), rounded(rounding), rounded(rounding), truth,
        [[drawn.randrange(1000) for _ in range(tokens)] for _ in range(samples)],
    )  # fmt: skip


def evidence(
    recorded: Recorded,
    *,
    sampling: Sampling | None = None,
    tokens: TokenReport | None = None,
    tried: list[Tried] | None = None,
    projects: tuple[str, ...] = ("verl",),
    with_other: bool = True,
    with_prefill: bool = True,
) -> Evidence:
    """What would be known of them when the verdict is sought."""
    profiler = Profiler()
    for number, (a, b, output) in enumerate(zip(recorded.decode, recorded.reference, recorded.outputs, strict=True)):
        profiler.add(number, recorded.prompt, output, a, b)
    judged = tally(recorded.decode, recorded.reference)
    return Evidence(
        judged=judged,
        profile=profiler.profile(),
        held=limits.hold(judged, projects),
        tokens=tokens or TokenReport(rendered=8),
        sampling=sampling or Sampling(),
        reading=tally(recorded.prefill, recorded.reference) if with_prefill else None,
        inside=tally(recorded.decode, recorded.prefill) if with_prefill else None,
        rounding=tally(recorded.reference, recorded.other) if with_other else None,
        other=tally(recorded.decode, recorded.other) if with_other else None,
        tried=tried or [],
        dtypes=("bfloat16", "float32") if with_other else ("bfloat16",),
        rope={"rope_type": "default", "rope_theta": 100000.0},
    )


def tally(one: list[list[float]], other: list[list[float]]) -> Figures:
    """Figures of two sides."""
    found = Tally()
    for a, b in zip(one, other, strict=True):
        found.add(a, b)
    return found.figures()


def changed(rows: list[list[float]], size: float, seed: int = 2) -> list[list[float]]:
    """As other weights would have it: every log-prob off by something of a size."""
    drawn = random.Random(seed)
    return [[min(-1e-6, value + drawn.gauss(0, size)) for value in row] for row in rows]


def colder(rows: list[list[float]], temperature: float) -> list[list[float]]:
    """As a temperature would have it, of a distribution over this token and one other."""
    return [[_at(value, temperature) for value in row] for row in rows]


def _at(logprob: float, temperature: float) -> float:
    p = math.exp(logprob)
    rest = max(1e-12, 1 - p)
    scaled = p ** (1 / temperature)
    return math.log(scaled / (scaled + rest ** (1 / temperature)))
