"""A whole comparison: gather, decide, and try out what could explain a difference."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

from harness.compare import limits, reasons
from harness.compare.answers import both_sides
from harness.compare.checkpoint import Store
from harness.compare.dialects import NotThere, counted
from harness.compare.engine import Engine, Facts, Refused
from harness.compare.evidence import Evidence, Trial, Tried
from harness.compare.figures import Figures, Tally, mean_abs
from harness.compare.fingerprint import differing
from harness.compare.gather import (
    Progress,
    Prompt,
    Sampler,
    Tell,
    as_asked,
    prompts,
    score,
    score_as_they_come,
    wanted,
)
from harness.compare.job import Job, Outcome
from harness.compare.model import Conversation, Sample
from harness.compare.profile import Profiler
from harness.compare.reference import Reference
from harness.compare.tokens import TokenDifference, TokenReport, picked, vocabularies
from harness.compare.tokens import compare as compare_tokens
from harness.errors import ReferenceUnusable, ServerUnreachable

# Samples by which another model is found out before the rest is sampled.
_FIRST = 4
# Mean |d| that no dtype and no kernel makes.
_ANOTHER_MODEL = 1.5
# Conversations whose rendering is asked of the server, too.
_RENDERED = 16
# Samples, and tokens of each, on which explanations are tried.
_TRIED, _TRIED_TOKENS = 8, 256
# Prompts that are rendered before the reference is busy, at least.
_AHEAD = 64
# Share of tokens that may lie just outside of a nucleus.
_AT_THE_EDGE = 0.03


async def compare(job: Job, store: Store, tell: Tell) -> Outcome:
    """Compare a server with the trainer's model.

    Raises:
        ServerUnreachable: the server can't be asked; what was gathered stays in the store.
        NoLogProbs, ReferenceUnusable, ReferenceTooBig, LibraryMissing, UsageError: there is nothing to compare.
    """
    continued = len(store.samples)
    progress = Progress(job.count, sampled=continued)
    async with (
        Engine(job.endpoint, in_flight=job.in_flight, timeout=job.timeout) as engine,
        Reference(job.python) as reference,
    ):
        # The tokenizer is all that sampling needs, so the server has work while torch and the weights are loaded.
        opening = asyncio.ensure_future(reference.open(path=job.reference))
        try:
            server = await engine.look(job.model)
        except BaseException:
            opening.cancel()
            raise
        facts = await opening
        comparison = _Comparison(job, store, tell, engine, reference, server, facts, progress)
        try:
            return await comparison.run(continued)
        except ServerUnreachable as error:
            raise ServerUnreachable(
                error.what,
                consequence=f"{len(store.samples)} of {job.count} samples are kept; the same command goes on there.",
                mend="make status   # is it up?",
            ) from None


class _Comparison:
    """One comparison with everything that it needs."""

    def __init__(
        self, job: Job, store: Store, tell: Tell, engine: Engine, reference: Reference, server: Facts,
        facts: dict[str, Any], progress: Progress,
    ) -> None:  # fmt: skip
        self.job, self.store, self.tell = job, store, tell
        self.engine, self.reference, self.server, self.facts = engine, reference, server, facts
        self.progress = progress
        self.tokens = TokenReport()
        self.notes: list[str] = []
        self.early = False
        self.files: list[str] = []

    async def run(self, continued: int) -> Outcome:
        """All of it."""
        job, first = self.job, self.job.dtypes[0]
        if not self.server.dialect.prefills:
            self.notes.append(
                "the server can't give log-probs of a prompt, so what it says while sampling is compared with the "
                "reference only, and not with what it says when it reads the same tokens"
            )
        # Before anything is compared: a revision that differs in nothing else shows here.
        self.files = differing(self.server.root, job.reference)
        if self.files:
            self.notes.append(
                f"the server was started from {self.server.root}, which isn't the reference's: {', '.join(self.files)}"
            )
        if await self._other_vocabulary():
            self.notes.append("nothing was sampled: token ids mean something else on both sides")
            return await self._outcome(continued)
        checked = await self._checked()
        todo = prompts(job, self.store, self._render)
        # Rendered before the reference begins to load, which answers nothing meanwhile.
        ahead = [prompt async for prompt in _first(todo, max(_AHEAD, 2 * job.in_flight))]
        sampler = Sampler(
            job, self.engine, self.server, self.store, self.progress, tell=self.tell,
            vocabulary=self.facts.get("embeddings") or 0, pieces_to_ids=self._ids_of, rendered=self._hold,
        )  # fmt: skip
        for number in self.store.samples.ids():
            if not self.store.sample(number).problem:
                sampler.scored.put_nowait(number)
            else:
                self.progress.scored += 1
        scoring = asyncio.ensure_future(self._score(sampler, first))
        sampling = asyncio.ensure_future(self._sample(sampler, chain(ahead, todo)))
        checking = asyncio.ensure_future(self._check_tokens(checked))
        watching = asyncio.ensure_future(self._is_another_model(first))
        try:
            # The first error ends all; so does another model.
            waited: set[asyncio.Future[Any]] = {scoring, sampling, checking, watching}
            while waited - {watching}:
                done, waited = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    one.result()
                if watching in done and watching.result():
                    sampling.cancel()
                    waited.discard(sampling)
                    await asyncio.gather(sampling, return_exceptions=True)
                    sampler.scored.put_nowait(None)
        finally:
            for one in (scoring, sampling, checking, watching):
                one.cancel()
            await asyncio.gather(scoring, sampling, checking, watching, return_exceptions=True)
        accuracy = None
        if job.reward is not None and not self.early:
            accuracy = await both_sides(job, self.store, self.reference, self.server.context, self.progress, self.tell)
        await self._second_dtype()
        outcome = await self._outcome(continued)
        outcome.accuracy = accuracy
        return outcome

    async def _other_vocabulary(self) -> bool:
        """Whether token ids all over the vocabulary are other texts at the server, as far as it says."""
        ids = picked(self.facts["vocabulary"], self.facts["special"])
        dialect = self.server.dialect
        requests = [request for token in ids if (request := dialect.spell([token])) is not None]
        if len(requests) < len(ids):
            return False
        try:
            asked = [self.engine.ask(request) for request in requests]
            theirs = [dialect.spelt(answer) for answer in await asyncio.gather(*asked)]
        except (Refused, NotThere):
            return False
        (ours,), _ = await self.reference.pieces([ids])
        self.tokens.vocabulary = vocabularies(dict(zip(ids, theirs, strict=True)), dict(zip(ids, ours, strict=True)))
        return bool(self.tokens.vocabulary)

    async def _sample(self, sampler: Sampler, todo: AsyncIterator[Prompt]) -> None:
        started = time.monotonic()
        await self.engine.each(todo, sampler.one)
        self.progress.seconds["sampling"] = time.monotonic() - started
        sampler.scored.put_nowait(None)

    async def _score(self, sampler: Sampler, first: str) -> None:
        self.facts |= await self._load(first)
        self.progress.seconds["loaded"] = time.monotonic() - self.progress.begun
        await score_as_they_come(
            self.reference, sampler, self.store, first, self.progress, self.tell, self.job.batch_tokens
        )

    async def _render(self, asked: Sequence[Conversation]) -> list[list[int]]:
        return await self.reference.render([as_asked(one) for one in asked])

    async def _checked(self) -> list[tuple[Conversation, list[int]]]:
        """The first conversations as the reference renders them."""
        found: dict[int, Conversation] = {}
        for conversation in wanted(self.job):
            if conversation.line in found or len(found) >= _RENDERED:
                break
            found[conversation.line] = conversation
        asked = [one for one in found.values() if one.messages]
        return list(zip(asked, await self._render(asked), strict=True)) if asked else []

    async def _check_tokens(self, checked: Sequence[tuple[Conversation, list[int]]]) -> None:
        """Both sides' tokens of the first conversations."""
        for conversation, ours in checked:
            await self._check_one(conversation, ours)

    async def _check_one(self, conversation: Conversation, ours: list[int]) -> None:
        request = self.server.dialect.render(conversation.messages, conversation.tools)
        # What a conversation with images becomes, the server says when it answers it.
        if request is None or conversation.images:
            return
        try:
            theirs = await self.engine.rendered(self.server.dialect, request)
        except Refused as error:
            note = f"the server renders no conversation like line {conversation.line}: {error}"
            if len(self.notes) < 8:
                self.notes.append(note[:300])
            return
        except NotThere as error:
            count = counted(error)
            if count is not None:
                self.tokens.counted += 1
                if count != len(ours):
                    self.tokens.differences.append(
                        TokenDifference(conversation.line, "count", server_count=count, reference_count=len(ours))
                    )
            return
        await self._hold(conversation.line, theirs, ours)

    async def _hold(self, line: int, theirs: list[int], ours: list[int]) -> None:
        """Both sides' tokens of a conversation against each other."""
        self.tokens.rendered += 1
        if theirs != ours and len(self.tokens.differences) < _RENDERED:
            (one, other), _ = await self.reference.pieces([theirs, ours])
            self.tokens.differences.append(
                compare_tokens(line, theirs, ours, bos=self.facts["bos"],
                               server_pieces=one, reference_pieces=other)
            )  # fmt: skip

    async def _is_another_model(self, first: str) -> bool:
        """Whether the first samples already show that there is nothing to compare."""
        while len(self.store.scores(first)) < _FIRST:
            await asyncio.sleep(0.02)
        mine = list(self.store.scores(first).ids()[:_FIRST])
        pairs = []
        for number in mine:
            sample, theirs = self.store.sample(number), self.store.score(first, number)
            assert theirs is not None
            pairs.append((sample.prefill or sample.decode, theirs.logprobs))
        size = mean_abs(pairs)
        self.early = math.isfinite(size) and size > _ANOTHER_MODEL and self.job.count > _FIRST
        if self.early:
            self.notes.append(
                f"ended early, after {len(mine)} samples had been scored: "
                f"no engine makes a mean |d| of {size:.2f} of the same model"
            )
        return self.early

    async def _second_dtype(self) -> None:
        if len(self.job.dtypes) < 2:
            return
        second = self.job.dtypes[1]
        missing = [
            number for number in self.store.scores(self.job.dtypes[0]).ids() if number not in self.store.scores(second)
        ]
        if not missing:
            return
        await self._load(second)
        for start in range(0, len(missing), 64):
            await score(self.reference, self.store, second, missing[start : start + 64], None, None)

    async def _load(self, dtype: str) -> dict[str, Any]:
        job = self.job
        return await self.reference.load(
            path=job.reference, dtype=dtype, device=job.device, batch_tokens=job.batch_tokens, bytes=job.weights,
            free=_free(),
        )  # fmt: skip

    async def _ids_of(self, decoded: Any) -> list[int] | None:
        """Token ids of an output whose tokens the server names by texts; None where they can't be told apart."""
        (ids,) = await self.reference.encode(["".join(decoded.pieces)])
        (pieces,), _ = await self.reference.pieces([ids])
        return ids if pieces == decoded.pieces else None

    async def _outcome(self, continued: int) -> Outcome:
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
            reference={**self.facts, "path": self.job.reference, "over_model": self.reference.over_model},
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
        first = self.job.dtypes[-1] if len(self.job.dtypes) > 1 else self.job.dtypes[0]
        numbers = [number for number, _, _ in evidence.profile.samples]
        step = max(1, len(numbers) // _TRIED)
        picked = dict.fromkeys([*evidence.profile.worst[: _TRIED // 2], *numbers[::step]])
        found = []
        for number in list(picked)[:_TRIED]:
            sample, theirs = self.store.sample(number), self.store.score(first, number)
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
        async for answer in self.reference.score(rows, views, trial.change if trial else None):
            for kept, logprobs in zip(pairs, answer["logprobs"], strict=True):
                kept.append((by_number[answer["id"]].decode, logprobs))
        return [_mean_or_inf(kept) for kept in pairs]

    async def _texts(self, outcome: Outcome) -> None:
        """The worst samples as people read them, and how many outputs are cut into other tokens anew."""
        worst = [self.store.sample(number) for number in outcome.profile.worst]
        if worst:
            pieces, _ = await self.reference.pieces([sample.output for sample in worst])
            _, texts = await self.reference.pieces([sample.prompt for sample in worst])
            for sample, own, text in zip(worst, pieces, texts, strict=True):
                outcome.pieces[sample.id], outcome.prompts[sample.id] = own, text
        numbers = [number for number, _, _ in outcome.profile.samples][:256]
        ids = [self.store.sample(number).output for number in numbers]
        if ids:
            _, texts = await self.reference.pieces(ids)
            again = await self.reference.encode(texts)
            self.tokens.outputs = len(ids)
            self.tokens.retokenised = sum(one != other for one, other in zip(ids, again, strict=True))


def _mean_or_inf(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    """Mean |d|; infinite where much of what was sampled would not have been possible.

    At the edge of a nucleus rounding decides who belongs to it, so a few tokens may be outside.
    """
    both = [(a, b) for ours, theirs in pairs for a, b in zip(ours, theirs, strict=False) if math.isfinite(a)]
    cut = sum(b == -math.inf for _, b in both)
    return math.inf if not both or cut > _AT_THE_EDGE * len(both) else mean_abs(pairs)


async def chain(ahead: Sequence[Prompt], items: AsyncIterator[Prompt]) -> AsyncIterator[Prompt]:
    """What is there already, then the rest."""
    for prompt in ahead:
        yield prompt
    async for prompt in items:
        yield prompt


async def _first(items: AsyncIterator[Prompt], count: int) -> AsyncIterator[Prompt]:
    for _ in range(count):
        try:
            yield await anext(items)
        except StopAsyncIteration:
            return


def _free() -> float:
    """Bytes of memory that a process may take here."""
    import psutil

    return float(psutil.virtual_memory().available)
