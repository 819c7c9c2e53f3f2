"""A comparison for a person: the verdict first, then figures against limits, then what speaks for it."""

from __future__ import annotations

import math
import time
from types import TracebackType

from rich.markup import escape
from rich.status import Status

from harness import console
from harness.compare.evidence import Reason
from harness.compare.figures import Figures
from harness.compare.gather import Progress
from harness.compare.job import Outcome

# Seconds between lines where there is no terminal on which one line could change.
PLAIN_EVERY = 10.0

PAIRS = {
    "decode-reference": "sampling against the reference",
    "prefill-reference": "reading against the reference",
    "decode-prefill": "sampling against reading, both the engine's",
    "rounding": "the reference in two dtypes",
    "decode-other": "sampling against the reference's second dtype",
    "first-second": "the first side against the second",
    "prefill-alone": "reading the same tokens in a batch and alone",
}


class Teller:
    """Shows how far a comparison is: one moving line on a terminal, else a plain one now and then."""

    def __init__(self) -> None:
        self._told = time.monotonic()
        self._status: Status | None = None

    def __enter__(self) -> Teller:
        if console.on_terminal():
            self._status = console.out().status("asking the server, loading the reference")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, progress: Progress) -> None:
        """Something was done."""
        now = time.monotonic()
        if now - self._told < (0.2 if self._status is not None else PLAIN_EVERY):
            return
        self._told = now
        if self._status is not None:
            self._status.update(escape(progress.text()))
        else:
            console.note(progress.text())


def show(outcome: Outcome) -> None:
    """Print it."""
    evidence, verdict = outcome.evidence, outcome.verdict
    one, other = outcome.parts
    figures = evidence.judged
    about = f"{one} and {other}: {outcome.samples} samples, {figures.tokens} tokens"
    if verdict.agree:
        console.ok(f"they agree. {about}")
    else:
        console.bad(f"they don't agree. {about}")
    for reason in verdict.reasons:
        _reason(reason)
    if not verdict.agree and not verdict.reasons:
        console.note("nothing could be compared")
    console.line()
    for held in evidence.held:
        sign = console.ok if held.kept else (console.note if held.kept is None else console.bad)
        if not held.limit.binding and held.kept is False:
            sign = console.warn
        sign(f"{held.limit.project}: {held.limit.text}, measured {number(held.value)}")
    console.line()
    rows = [[TITLES[name], *(number(getattr(found, name)) for _, found in pairs(outcome))] for name in TITLES]
    console.table(["", *(COLUMNS[name] for name, _ in pairs(outcome))], rows)
    console.line()
    _tokens(outcome)
    if outcome.accuracy is not None:
        sign = console.warn if outcome.accuracy.by_chance is False else console.note
        sign(outcome.accuracy.text())
        for problem, times in outcome.accuracy.problems.items():
            console.warn(f"{times} answers without a reward: {problem}")
    for problem, times in sorted(outcome.problems.items(), key=lambda item: -item[1]):
        console.warn(f"{times} samples left out: {problem}")
    for note in outcome.notes:
        console.note(note)


def pairs(outcome: Outcome) -> list[tuple[str, Figures]]:
    """What was compared with what, as far as there are figures."""
    evidence = outcome.evidence
    if evidence.against:
        found: dict[str, Figures | None] = {
            "first-second": evidence.judged,
            "prefill-alone": evidence.reading,
            "decode-prefill": evidence.inside,
        }
        return [(name, figures) for name, figures in found.items() if figures is not None]
    found = {
        "decode-reference": evidence.judged, "prefill-reference": evidence.reading, "decode-prefill": evidence.inside,
        "rounding": evidence.rounding, "decode-other": evidence.other,
    }  # fmt: skip
    return [(name, figures) for name, figures in found.items() if figures is not None]


COLUMNS = {
    "decode-reference": "decode:ref",
    "prefill-reference": "prefill:ref",
    "decode-prefill": "decode:prefill",
    "rounding": "ref:ref₂",
    "decode-other": "decode:ref₂",
    "first-second": "first:second",
    "prefill-alone": "in a batch:alone",
}
TITLES = {
    "abs_mean": "mean |Δ log-prob|",
    "abs_p99": "p99 |Δ log-prob|",
    "abs_max": "max |Δ log-prob|",
    "k1": "KL, k1",
    "k3": "KL, k3",
    "mult_prob_error": "mean exp|Δ|",
    "prob_mean": "mean |Δ probability|",
    "prob_max": "max |Δ probability|",
    "pearson": "Pearson of probabilities",
    "ppl_ratio": "perplexity ratio",
    "chi2_token": "χ², tokens",
    "outside": "ratios outside [0.5, 2]",
    "greedy": "same most likely token",
    "divergence": "tokens until it differs, median",
}


def _reason(reason: Reason) -> None:
    console.line(f"  {reason.certainty}: {reason.what}")
    for text in reason.because:
        console.line(f"    {text}")
    for text in reason.next:
        for line in text.splitlines():
            console.mend(line)


def _tokens(outcome: Outcome) -> None:
    report = outcome.evidence.tokens
    if report.rendered and not report.differences:
        console.ok(f"tokens: {report.rendered} conversations are rendered alike")
    elif report.counted and not report.differences:
        console.ok(
            f"tokens: {report.counted} conversations have as many on both sides (which ones, the server can't say)"
        )
    if report.retokenised:
        console.note(
            f"{report.retokenised} of {report.outputs} outputs become other tokens when their text is tokenised again: "
            "train on token ids, not on text"
        )


def number(value: float) -> str:
    if not math.isfinite(value):
        return "–"
    return f"{value:.4g}" if abs(value) < 1e5 else f"{value:.3e}"
