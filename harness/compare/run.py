"""A whole comparison: gather, decide, and try out what could explain a difference."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from harness.compare.answers import both_sides
from harness.compare.checkpoint import Store
from harness.compare.engine import Engine, Facts
from harness.compare.figures import mean_abs
from harness.compare.fingerprint import differing
from harness.compare.gather import Progress, Prompt, Sampler, Tell, load, prompts, row_of, score_as_they_come, wanted
from harness.compare.job import Job, Outcome
from harness.compare.reference import Reference
from harness.compare.token_check import TokenCheck
from harness.compare.weighing import Weighing
from harness.errors import LibraryMissing, ReferenceUnusable, ServerUnreachable

# Samples by which another model is found out before the rest is sampled.
_FIRST = 4
# Mean |d| that no dtype and no kernel makes.
_ANOTHER_MODEL = 1.5
# Prompts that are rendered before the reference is busy, at least.
_AHEAD = 64


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
        Reference(job.python) as words,
        Reference(job.python) as reference,
    ):
        # The tokenizer is all that sampling needs, so the server has work while torch and the weights are loaded.
        ahead = asyncio.Event()
        opening = asyncio.ensure_future(_tokenizer(job, words, reference))
        loading = asyncio.ensure_future(load(job, reference, job.dtypes[0], after=ahead))
        try:
            server = await engine.look(job.model)
            tokenizer, facts = await opening
            comparison = _Comparison(job, store, tell, engine, tokenizer, reference, server, facts, progress, loading)
            try:
                return await comparison.run(continued, ahead)
            except ServerUnreachable as error:
                raise ServerUnreachable(
                    error.what,
                    consequence=f"{len(store.samples)} of {job.count} samples are kept; "
                    "the same command goes on there.",
                    mend="make status   # is it up?",
                ) from None
        finally:
            for one in (opening, loading):
                one.cancel()
            await asyncio.gather(opening, loading, return_exceptions=True)


def _needs_torch(job: Job) -> bool:
    """Whether tokens can't be made without it: of a GGUF file's tokenizer, and of images."""
    return job.reference.endswith(".gguf") or bool(next(wanted(job)).images)


async def _tokenizer(job: Job, words: Reference, reference: Reference) -> tuple[Reference, dict[str, Any]]:
    """The process that has the tokenizer, and what it is; without torch it is there in a third of the time."""
    if not _needs_torch(job):
        with contextlib.suppress(ReferenceUnusable, LibraryMissing):  # the other can do it, or says it better
            return words, await words.open(path=job.reference, alone=True)
    return reference, await reference.open(path=job.reference)


class _Comparison:
    """One comparison with everything that it needs."""

    def __init__(
        self, job: Job, store: Store, tell: Tell, engine: Engine, words: Reference, reference: Reference,
        server: Facts, facts: dict[str, Any], progress: Progress, loading: asyncio.Future[dict[str, Any]],
    ) -> None:  # fmt: skip
        self.job, self.store, self.tell = job, store, tell
        self.engine, self.reference, self.server = engine, reference, server
        self.facts, self.progress, self.loading = facts, progress, loading
        self.notes: list[str] = []
        self.early = False
        self.files: list[str] = []
        self.check = TokenCheck(job, engine, server, words, reference, facts, self.notes)
        self.all_rendered = self.scoring = False
        # Bytes of the tokenizer's own process, at most, and whether it was there while the reference scored.
        self.tokenizer = 0, False

    async def run(self, continued: int, rendered: asyncio.Event) -> Outcome:
        """All of it.

        Args:
            rendered: is set as soon as there are prompts to sample.
        """
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
        if await self.check.other_vocabulary():
            self.notes.append("nothing was sampled: token ids mean something else on both sides")
            return await self._weighing().outcome(continued)
        checked = await self.check.rendered()
        todo = prompts(job, self.store, self.check.render)
        # Before the reference is busy, should it be the one that has the tokenizer.
        most = max(_AHEAD, 2 * job.in_flight)
        ahead = [prompt async for prompt in _first(todo, most)]
        self.all_rendered = len(ahead) < most
        rendered.set()
        sampler = Sampler(
            job, self.engine, self.server, self.store, self.progress, tell=self.tell,
            vocabulary=self.facts.get("embeddings") or 0, pieces_to_ids=self.check.ids_of, rendered=self.check.hold,
        )  # fmt: skip
        for number in self.store.samples.ids():
            if not self.store.sample(number).problem:
                sampler.scored.put_nowait(number)
            else:
                self.progress.scored += 1
        scoring = asyncio.ensure_future(self._score(sampler))
        sampling = asyncio.ensure_future(self._sample(sampler, self._rendered(ahead, todo)))
        checking = asyncio.ensure_future(self.check.check(checked))
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
                    sampler.give_up()
                    sampler.scored.put_nowait(None)
        finally:
            for one in (scoring, sampling, checking, watching):
                one.cancel()
            await asyncio.gather(scoring, sampling, checking, watching, return_exceptions=True)
        accuracy = None
        if job.reward is not None and not self.early:
            accuracy = await both_sides(job, self.store, self.reference, self.server.context, self.progress, self.tell)
        await self._second_dtype()
        outcome = await self._weighing().outcome(continued)
        outcome.accuracy = accuracy
        return outcome

    async def _sample(self, sampler: Sampler, todo: AsyncIterator[Prompt]) -> None:
        started = time.monotonic()
        await self.engine.each(todo, sampler.one)
        self.progress.seconds["sampling"] = time.monotonic() - started
        sampler.scored.put_nowait(None)

    async def _score(self, sampler: Sampler) -> None:
        self.facts |= await self.loading
        self.progress.seconds["loaded"] = time.monotonic() - self.progress.begun
        await self._one_tokenizer()
        self.scoring = True
        dtypes = list(self.job.dtypes[:1])
        # Where there is room for both, what waits for the server has time for the second, too.
        for dtype in self.job.dtypes[1:]:
            if await load(self.job, self.reference, dtype, beside=True):
                dtypes.append(dtype)
        await score_as_they_come(
            self.reference, sampler, self.store, dtypes, self.progress, self.tell, self.job.batch_tokens
        )

    async def _rendered(self, ahead: Sequence[Prompt], rest: AsyncIterator[Prompt]) -> AsyncIterator[Prompt]:
        """What is there already, then the rest."""
        for prompt in ahead:
            yield prompt
        async for prompt in rest:
            yield prompt
        self.all_rendered = True
        await self._one_tokenizer()

    async def _one_tokenizer(self) -> None:
        """End the tokenizer's own process as soon as nothing hangs on it: the reference has the same one by then."""
        own = self.check.words
        if own is self.reference or not self.all_rendered or not self.loading.done():
            return
        self.check.words = self.reference
        self.tokenizer = await own.peak(), self.scoring
        await own.end()

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
        await load(self.job, self.reference, second)
        for start in range(0, len(missing), 64):
            rows = [self.store.sample(number).to_score() for number in missing[start : start + 64]]
            async for answer in self.reference.score(rows, dtype=second):
                self.store.scores(second).add(row_of(answer))

    def _over_model(self) -> int:
        """Bytes beyond the reference's weights at any one time, at most."""
        size, beside = self.tokenizer
        return self.reference.over_model + size if beside else max(self.reference.over_model, size)

    def _weighing(self) -> Weighing:
        return Weighing(
            self.job, self.store, self.reference, self.check.words, self.server, self.facts, self.progress,
            self.check.tokens, self.notes, self.early, self.files, self._over_model(),
        )  # fmt: skip


async def _first(items: AsyncIterator[Prompt], count: int) -> AsyncIterator[Prompt]:
    for _ in range(count):
        try:
            yield await anext(items)
        except StopAsyncIteration:
            return
