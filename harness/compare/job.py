"""What is to be compared, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.agent.source import AgentSource
from harness.compare.accuracy import Accuracy
from harness.compare.evidence import Evidence, Verdict
from harness.compare.model import Sampling
from harness.compare.profile import Profile
from harness.openai_api.http import Endpoint


@dataclass(frozen=True)
class Job:
    """A comparison.

    Args:
        model: name to ask the server for; it may know its model under another.
        data: file of conversations; read over again where ``count`` is larger.
        count: samples.
        reference: folder, hub id or GGUF file of the trainer's model; "" where there is none.
        python: interpreter with torch and transformers.
        dtypes: of the reference: the one that is judged, then one to tell rounding from weights.
        batch_tokens: tokens of one forward pass, padding among them; bounds the memory.
        weights: bytes of the reference's files; 0: unknown.
        limits: projects whose limits decide.
        against: ``""``: the reference; ``batch``, ``cache``: the same server in another way; ``server``: ``second``;
            ``run``: an earlier comparison's samples, read again.
        earlier: folder of that earlier comparison.
        reward: function that judges both sides' answers; None: only log-probs are compared.
    """

    endpoint: Endpoint
    model: str
    data: Path
    count: int
    sampling: Sampling
    in_flight: int = 64
    timeout: float = 600.0
    reference: str = ""
    python: str = ""
    dtypes: tuple[str, ...] = ("bfloat16", "float32")
    device: str = ""
    batch_tokens: int = 1024
    weights: int = 0
    limits: tuple[str, ...] = ("verl",)
    against: str = ""
    second: Endpoint | None = None
    earlier: Path | None = None
    reward: AgentSource | None = None

    @property
    def trainer(self) -> str:
        """The name under which the store has the other side's scores."""
        return "second" if self.against else self.dtypes[0]

    def key(self) -> dict[str, Any]:
        """What decides the samples and scores; the same for a comparison that goes on with another's."""
        return {
            "url": self.endpoint.base_url,
            "model": self.model,
            "data": str(self.data),
            "changed": self.data.stat().st_mtime_ns,
            "count": self.count,
            "sampling": vars(self.sampling),
            "reference": self.reference,
            "dtypes": self.dtypes,
            "against": self.against,
            "second": self.second.base_url if self.second else "",
            "earlier": str(self.earlier or ""),
            "reward": self.reward.given if self.reward else "",
        }


@dataclass
class Outcome:
    """What came of it.

    Args:
        parts: what was compared, in words: the engine's side and the other.
        figures: by pair: ``decode-reference``, ``prefill-reference`` …; see ``show.PAIRS``.
        problems: samples that couldn't be compared, by reason.
        notes: what was left out, and why.
        pieces: of the worst samples, by number: the tokens as texts.
        speed: seconds and tokens of each part.
    """

    verdict: Verdict
    evidence: Evidence
    parts: tuple[str, str]
    server: dict[str, Any]
    reference: dict[str, Any]
    figures: dict[str, dict[str, Any]]
    profile: Profile
    samples: int
    problems: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    pieces: dict[int, list[str]] = field(default_factory=dict)
    prompts: dict[int, str] = field(default_factory=dict)
    speed: dict[str, float] = field(default_factory=dict)
    continued: int = 0
    accuracy: Accuracy | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "verb": "compare",
            "exit_code": self.verdict.exit_code,
            "verdict": _sentence(self.verdict),
            "agree": self.verdict.agree,
            "reasons": self.verdict.as_dict()["reasons"],
            "parts": list(self.parts),
            "samples": self.samples,
            "figures": self.figures,
            "limits": [one.as_dict() for one in self.evidence.held],
            "tokens": self.evidence.tokens.as_dict(),
            "profile": self.profile.as_dict(),
            "tried": [one.as_dict() for one in self.evidence.tried],
            "rewards": self.accuracy.as_dict() if self.accuracy else None,
            "problems": self.problems,
            "notes": self.notes,
            "server": self.server,
            "reference": self.reference,
            "speed": self.speed,
            "continued": self.continued,
        }


def _sentence(verdict: Verdict) -> str:
    if verdict.agree:
        return "they agree"
    if not verdict.reasons:
        return "they don't agree"
    return "; ".join(f"{reason.what} ({reason.certainty})" for reason in verdict.reasons)
