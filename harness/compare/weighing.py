"""What came of a comparison: figures over all that was gathered, and trials of what could explain a difference."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.compare import limits, reasons
from harness.compare.checkpoint import Store
from harness.compare.engine import Facts
from harness.compare.evidence import Evidence, Trial, Tried
from harness.compare.figures import Figures, Tally, mean_abs
from harness.compare.gather import Progress, load
from harness.compare.job import Job, Outcome
from harness.compare.model import Sample
from harness.compare.profile import Profiler
from harness.compare.reference import Reference
from harness.compare.tokens import TokenReport
from harness.errors import ReferenceUnusable

# Samples, and tokens of each, on which explanations are tried.
_TRIED, _TRIED_TOKENS = 8, 256
# Share of tokens that may lie just outside of a nucleus.
_AT_THE_EDGE = 0.03


@dataclass
class Weighing:
    """What was gathered, and what follows from it.

    Args:
        reference: explanations are tried there, in the last of the job's dtypes.
        words: the process that has the tokenizer.
        facts: of the reference.
        early: whether it ended because nothing fitted.
        files: in which the server's own folder differs from the reference's.
        over_model: bytes that were taken beyond the weights, at most.
    """

    job: Job
    store: Store
    reference: Reference
    words: Reference
    server: Facts
    facts: dict[str, Any]
    progress: Progress
    tokens: TokenReport
    notes: list[str]
    early: bool
    files: list[str]
    over_model: int = 0

    async def outcome(self, continued: int) -> Outcome:
        """Figures, limits, reasons, and the worst samples as people read them."""
        evidence, figures, problems, samples = self._measure()
        verdict = reasons.decide(evidence)
        if evidence.judged.tokens and (limits.broken(evidence.held) or reasons.suspicious(evidence)):
            evidence.tried = await self._try(evidence)
            verdict = reasons.decide(evidence)
        outcome = Outcome(
            verdict=verdict, evidence=evidence,
            parts=(f"{self.server.dialect.name} at {self.job.endpoint.base_url}",
                   f"transformers {self.facts.get('transformers', '')}, {self.job.dtypes[0]}"),
            server=self.server.as_dict(),
            reference={**self.facts, "path": self.job.reference, "over_model": self.over_model},
            figures={name: found.as_dict() for name, found in figures.items()},
            profile=evidence.profile, samples=samples, problems=problems, notes=self.notes,
            speed=dict(self.progress.seconds), continued=continued,
        )  # fmt: skip
        await self._texts(outcome)
        return outcome

    def _measure(self) -> tuple[Evidence, dict[str, Figures], dict[str, int], int]:
        """One pass over the store for all figures."""
        first, second = (*self.job.dtypes, "")[:2]
        names = ("decode-reference", "prefill-reference", "decode-prefill", "rounding", "decode-other")
        tallies = {name: Tally() for name in names}
        profiler, problems, many = Profiler(), Counter[str](), 0
        for sample in self.store.all_samples():
            if sample.problem:
                problems[sample.problem] += 1
                continue
            theirs = self.store.score(first, sample.id)
            if theirs is None:
                continue
            many += 1
            tallies["decode-reference"].add(sample.decode, theirs.logprobs, sample.top, theirs.top)
            profiler.add(sample.id, sample.prompt, sample.output, sample.decode, theirs.logprobs)
            if sample.prefill:
                tallies["prefill-reference"].add(sample.prefill, theirs.logprobs, sample.top, theirs.top)
                tallies["decode-prefill"].add(sample.decode, sample.prefill)
            other = self.store.score(second, sample.id) if second else None
            if other is not None:
                tallies["rounding"].add(theirs.logprobs, other.logprobs, theirs.top, other.top)
                tallies["decode-other"].add(sample.decode, other.logprobs, sample.top, other.top)
        figures = {name: found for name, tally in tallies.items() if (found := tally.figures()).samples}
        judged = figures.get("decode-reference", Figures())
        evidence = Evidence(
            judged=judged, profile=profiler.profile(), held=limits.hold(judged, self.job.limits), tokens=self.tokens,
            sampling=self.job.sampling, reading=figures.get("prefill-reference"), inside=figures.get("decode-prefill"),
            rounding=figures.get("rounding"), other=figures.get("decode-other"), dtypes=self.job.dtypes,
            early=self.early, files=self.files, rope=self.facts.get("rope") or {},
        )  # fmt: skip
        return evidence, figures, dict(problems), many

    async def _try(self, evidence: Evidence) -> list[Tried]:
        """Everything that could explain the difference, on the reference's side, on a few samples."""
        samples = self._probes(evidence)
        await load(self.job, self.reference, self.job.dtypes[-1])
        before = mean_abs([(sample.decode, logprobs) for sample, logprobs in samples])
        trials = reasons.trials(evidence, bos=self.facts["bos"])
        views = [trial for trial in trials if trial.view]
        found = [
            Tried(trial, before, after)
            for trial, after in zip(views, await self._after(samples, [one.view for one in views]), strict=True)
        ]
        for trial in trials:
            if trial.view:
                continue
            try:
                (after,) = await self._after(samples, [{}], trial)
            except ReferenceUnusable as error:
                self.notes.append(f"{trial.what} couldn't be tried: {error.what}"[:300])
                continue
            found.append(Tried(trial, before, after))
        return found

    def _probes(self, evidence: Evidence) -> list[tuple[Sample, list[float]]]:
        """The worst samples and some of all, cut to a length."""
        last = self.job.dtypes[-1]
        numbers = [number for number, _, _ in evidence.profile.samples]
        step = max(1, len(numbers) // _TRIED)
        picked = dict.fromkeys([*evidence.profile.worst[: _TRIED // 2], *numbers[::step]])
        found = []
        for number in list(picked)[:_TRIED]:
            sample, theirs = self.store.sample(number), self.store.score(last, number)
            if theirs is not None:
                sample.output, sample.decode = sample.output[:_TRIED_TOKENS], sample.decode[:_TRIED_TOKENS]
                found.append((sample, theirs.logprobs[:_TRIED_TOKENS]))
        return found

    async def _after(
        self,
        samples: Sequence[tuple[Sample, list[float]]],
        views: Sequence[dict[str, float]],
        trial: Trial | None = None,
    ) -> list[float]:
        """Mean |d| of the engine's log-probs and the reference's, seen in some ways."""
        by_number = {sample.id: sample for sample, _ in samples}
        rows = []
        for sample in by_number.values():
            prompt = list(sample.prompt)
            if trial is not None and trial.bos > 0:
                prompt = [self.facts["bos"], *prompt]
            if trial is not None and trial.bos < 0 and len(prompt) > 1 and prompt[0] == self.facts["bos"]:
                prompt = prompt[1:]
            rows.append(sample.to_score(prompt))
        pairs: list[list[tuple[list[float], list[float]]]] = [[] for _ in views]
        async for answer in self.reference.score(
            rows, views, trial.change if trial else None, dtype=self.job.dtypes[-1]
        ):
            for kept, logprobs in zip(pairs, answer["logprobs"], strict=True):
                kept.append((by_number[answer["id"]].decode, logprobs))
        return [_mean_or_inf(kept) for kept in pairs]

    async def _texts(self, outcome: Outcome) -> None:
        """The worst samples as people read them, and how many outputs are cut into other tokens anew."""
        worst = [self.store.sample(number) for number in outcome.profile.worst]
        if worst:
            pieces, _ = await self.words.pieces([sample.output for sample in worst])
            _, texts = await self.words.pieces([sample.prompt for sample in worst])
            for sample, own, text in zip(worst, pieces, texts, strict=True):
                outcome.pieces[sample.id], outcome.prompts[sample.id] = own, text
        numbers = [number for number, _, _ in outcome.profile.samples][:256]
        ids = [self.store.sample(number).output for number in numbers]
        if ids:
            _, texts = await self.words.pieces(ids)
            again = await self.words.encode(texts)
            self.tokens.outputs = len(ids)
            self.tokens.retokenised = sum(one != other for one, other in zip(ids, again, strict=True))


def _mean_or_inf(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    """Mean |d|; infinite where much of what was sampled would not have been possible.

    At the edge of a nucleus rounding decides who belongs to it, so a few tokens may be outside.
    """
    both = [(a, b) for ours, theirs in pairs for a, b in zip(ours, theirs, strict=False) if math.isfinite(a)]
    cut = sum(b == -math.inf for _, b in both)
    return math.inf if not both or cut > _AT_THE_EDGE * len(both) else mean_abs(pairs)
