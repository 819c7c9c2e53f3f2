"""A comparison as one HTML page: the verdict, figures, pictures, and the worst samples token by token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.compare import pictures
from harness.compare.job import Outcome
from harness.compare.show import COLUMNS, PAIRS, TITLES, number, pairs
from harness.runs.html.page import render
from harness.runs.redact import Redactor

NAME = "report.html"
_TEMPLATES = Path(__file__).parent / "templates"
# Of |Δ|: from where a token is coloured, and more.
STEPS = (0.05, 0.2, 0.7, 2.0)
_TEXT = 4000
_TOKENS = 600


@dataclass(frozen=True)
class Token:
    """One token of a sample, as it is shown.

    Args:
        step: 0 to 4, how far both sides are apart.
        side: ``engine`` or ``trainer``: which of them thinks it likelier.
    """

    text: str
    engine: float
    trainer: float
    step: int
    side: str

    @property
    def difference(self) -> float:
        """The trainer's log-prob less the engine's."""
        return self.trainer - self.engine


@dataclass(frozen=True)
class Shown:
    """One of the worst samples.

    Args:
        size: mean |Δ|.
        rows: its tokens that differ most.
    """

    id: int
    line: int
    size: float
    prompt: str
    tokens: Sequence[Token]
    rows: Sequence[Sequence[str]]
    first: str


def build(
    outcome: Outcome, worst: Sequence[tuple[int, int, Sequence[float], Sequence[float]]], redactor: Redactor, *,
    name: str, made: str,
) -> str:  # fmt: skip
    """The page.

    Args:
        worst: of the worst samples: number, line, and both sides' log-probs.
        redactor: goes over every text.
        name: the run's folder.
        made: when, as people write it.
    """
    evidence, verdict = outcome.evidence, outcome.verdict
    found = pairs(outcome)
    return render(
        "compare.html.j2", _TEMPLATES, style_of="compare.css",
        name=name, agree=verdict.agree,
        sides=[redactor.text(part) for part in outcome.parts], steps=STEPS,
        facts=[(key, redactor.text(str(value))) for key, value in _facts(outcome, made) if value not in (None, "")],
        reasons=[redactor.data(vars(reason)) for reason in verdict.reasons],
        held=[(one.limit.project, one.limit.text, number(one.value), one.kept, one.limit.source, one.limit.binding)
              for one in evidence.held],
        columns=["", *(COLUMNS[pair] for pair, _ in found)],
        figures=[[title, *(number(getattr(figures, key)) for _, figures in found)] for key, title in TITLES.items()],
        shares=_shares(outcome),
        rewards=redactor.text(outcome.accuracy.text()) if outcome.accuracy else "",
        legend=[(COLUMNS[pair], PAIRS[pair]) for pair, _ in found],
        scatter=pictures.scatter(outcome.profile.scatter, *_short(outcome)),
        differences=pictures.differences(outcome.profile.differences),
        positions=pictures.by_position(outcome.profile.positions, "position in prompt and output together"),
        outputs=pictures.by_position(outcome.profile.outputs, "position in the output"),
        samples=[_sample(outcome, row, redactor) for row in worst],
        tokens=_tokens(outcome, redactor),
        tried=[[one.trial.kind, one.trial.what, number(one.before), number(one.after)]
               for one in sorted(evidence.tried, key=lambda one: one.after)[:12]],
        problems=sorted(outcome.problems.items(), key=lambda item: -item[1]),
        notes=[redactor.text(note) for note in outcome.notes],
    )  # fmt: skip


def _short(outcome: Outcome) -> tuple[str, str]:
    return outcome.parts[0].partition(" at ")[0], outcome.parts[1].partition(" at ")[0]


def _facts(outcome: Outcome, made: str) -> list[tuple[str, Any]]:
    server, reference = outcome.server, outcome.reference
    return [
        ("made", made),
        ("server", f"{server.get('engine', '')} {server.get('version', '')}".strip()),
        ("its model", server.get("model")),
        ("reference", reference.get("path")),
        ("architecture", reference.get("architecture")),
        ("transformers", reference.get("transformers")),
        ("torch", reference.get("torch")),
        ("device", reference.get("device")),
        ("samples", outcome.samples),
        ("tokens", outcome.evidence.judged.tokens),
        ("temperature", outcome.evidence.sampling.temperature),
        ("top_p", outcome.evidence.sampling.top_p),
    ]


def _shares(outcome: Outcome) -> list[list[str]]:
    figures = outcome.evidence.judged
    return [
        [f"{float(cap):g}", f"{figures.truncated[cap]:.2%}", f"{figures.masked[cap]:.2%}"] for cap in figures.truncated
    ]


def _tokens(outcome: Outcome, redactor: Redactor) -> dict[str, Any]:
    report = outcome.evidence.tokens
    rows = [
        [one.line, one.kind, one.place, redactor.text(repr(one.server)), redactor.text(repr(one.reference)),
         one.server_count, one.reference_count]
        for one in report.differences[:20]
    ]  # fmt: skip
    return {"rendered": report.rendered, "counted": report.counted, "rows": rows,
            "retokenised": report.retokenised, "outputs": report.outputs}  # fmt: skip


def _sample(outcome: Outcome, row: tuple[int, int, Sequence[float], Sequence[float]], redactor: Redactor) -> Shown:
    sample, line, engine, trainer = row
    pieces = outcome.pieces.get(sample) or ["·"] * len(engine)
    tokens = [_token(redactor.text(text), a, b) for text, a, b in zip(pieces[:_TOKENS], engine, trainer, strict=False)]
    largest = sorted(range(len(tokens)), key=lambda place: -_size(tokens[place]))[:10]
    rows = [
        [str(place), repr(tokens[place].text), number(tokens[place].engine), number(tokens[place].trainer),
         f"{tokens[place].difference:+.3g}"]
        for place in largest
    ]  # fmt: skip
    first = next((place for place, token in enumerate(tokens) if token.step >= 2), None)
    sizes = [_size(token) for token in tokens if math.isfinite(token.difference)]
    prompt = redactor.text(outcome.prompts.get(sample, ""))
    return Shown(
        sample, line, sum(sizes) / len(sizes) if sizes else math.nan,
        prompt if len(prompt) <= _TEXT else f"… {prompt[-_TEXT:]}", tokens, rows,
        "" if first is None else f"first token that is {STEPS[1]:g} apart: {first}, {tokens[first].text!r}",
    )  # fmt: skip


def _size(token: Token) -> float:
    return abs(token.difference) if math.isfinite(token.difference) else math.inf


def _token(text: str, engine: float, trainer: float) -> Token:
    difference = trainer - engine
    step = 4 if not math.isfinite(difference) else sum(abs(difference) >= edge for edge in STEPS)
    return Token(text, engine, trainer, step, "trainer" if difference > 0 else "engine")
