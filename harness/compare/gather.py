"""Samples and scores: the server is kept busy, the reference scores what is there meanwhile, all goes to the store."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from harness.compare import conversations
from harness.compare.checkpoint import Store
from harness.compare.dialects import Decoded, NotThere, in_a_template
from harness.compare.engine import Engine, Facts, Refused, problem_of
from harness.compare.job import Job
from harness.compare.model import Conversation, Sample
from harness.compare.reference import Reference
from harness.errors import UsageError

# Conversations that are rendered together.
_RENDERED = 32
# Samples that are handed to the reference together, in batches' worth of tokens.
_HANDED = 8


@dataclass
class Progress:
    """How far a comparison is.

    Args:
        total: samples wanted.
        sampled, scored: done by the server and by the reference.
        tokens: sampled.
        answered: by the trainer's model itself, for a reward function; None: not asked yet.
    """

    total: int
    sampled: int = 0
    scored: int = 0
    tokens: int = 0
    begun: float = field(default_factory=time.monotonic)
    scoring: bool = True
    answered: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def text(self) -> str:
        """For a line that moves."""
        if self.answered is not None:
            return f"{self.sampled} of {self.total} sampled, {self.answered} answered by the trainer's model, too"
        spent = time.monotonic() - self.begun
        rate = self.tokens / spent if spent else 0.0
        done = min(self.sampled, self.scored) if self.scoring else self.sampled
        left = f", {spent / done * (self.total - done):.0f} s left" if done and done < self.total else ""
        scored = f", {self.scored} scored" if self.scoring else ""
        return f"{self.sampled} of {self.total} sampled{scored}, {rate:.0f} tokens/s{left}"


Tell = Callable[[Progress], None]


@dataclass(frozen=True)
class Prompt:
    """A conversation as token ids.

    Args:
        id: of the sample that it is for.
    """

    id: int
    conversation: Conversation
    ids: list[int]
    problem: str = ""


def wanted(job: Job) -> Iterator[Conversation]:
    """As many conversations as samples are wanted, the data over again if need be.

    Raises:
        UsageError: the data has none.
    """
    left = job.count
    while left:
        before = left
        for conversation in itertools.islice(conversations.read(job.data), left):
            left -= 1
            yield conversation
        if left == before:
            raise UsageError(f"{job.data} holds no conversation", mend="DATA=FILE.jsonl")


async def prompts(job: Job, store: Store, render: Any) -> AsyncIterator[Prompt]:
    """What is still to be sampled, rendered.

    Args:
        render: makes token ids of a list of conversations.
    """
    numbered = enumerate(wanted(job))
    while chunk := list(itertools.islice(numbered, _RENDERED)):
        chunk = [(number, one) for number, one in chunk if number not in store.samples]
        asked = [one for _, one in chunk if not one.ids]
        ids = iter(await render(asked)) if asked else iter(())
        for number, one in chunk:
            if one.images and (job.against or job.reward):
                setting = "AGAINST" if job.against else "REWARD"
                raise UsageError(
                    f"{job.data.name}, line {one.line} has images, which {setting}= can't take",
                    consequence="Images are compared with the trainer's model only, by what is sampled.",
                    mend="make compare DATA=…   # without it, or with data of text",
                )
            yield Prompt(number, one, list(one.ids) if one.ids else next(ids))


def as_asked(conversation: Conversation) -> dict[str, Any]:
    """A conversation as the reference's process takes it."""
    if conversation.text is not None:
        return {"text": conversation.text}
    return {"messages": in_a_template(conversation.messages), "tools": list(conversation.tools)}


class Sampler:
    """Samples one prompt and has the engine read the result, into the store."""

    def __init__(
        self, job: Job, engine: Engine, facts: Facts, store: Store, progress: Progress, *,
        vocabulary: int, pieces_to_ids: Any = None, rendered: Any = None, tell: Tell, prefill: bool = True,
        salt: bool = False,
    ) -> None:  # fmt: skip
        self._job, self._engine, self._facts, self._store = job, engine, facts, store
        self._progress, self._tell = progress, tell
        self._vocabulary, self._pieces_to_ids, self._rendered = vocabulary, pieces_to_ids, rendered
        self._prefill, self._salt = prefill and facts.dialect.prefills, salt
        self.scored: asyncio.Queue[int | None] = asyncio.Queue()

    async def one(self, prompt: Prompt) -> None:
        """Sample, read, keep."""
        sample = Sample(prompt.id, prompt.conversation.line, prompt.ids)
        try:
            await self._fill(sample, prompt)
        except Refused as error:
            sample.problem = f"the server refuses it: {error}"[:300]
        except NotThere as error:
            sample.problem = f"the server's answer lacks {error}"
        if not sample.problem:
            sample.problem = problem_of(sample, self._vocabulary)
        self._store.samples.add(sample.as_dict())
        self._progress.sampled += 1
        self._progress.tokens += len(sample.output)
        if sample.problem:
            self._progress.scored += 1
        else:
            self.scored.put_nowait(sample.id)
        self._tell(self._progress)

    async def _fill(self, sample: Sample, prompt: Prompt) -> None:
        recorded = prompt.conversation
        if recorded.output:
            sample.output, sample.decode, sample.finish = list(recorded.output), list(recorded.logprobs), "recorded"
        else:
            room = self._room(len(prompt.ids))
            if room < 1:
                sample.problem = (
                    f"the prompt has {len(prompt.ids)} tokens, and the server's context {self._facts.context}"
                )
                return
            sampling = self._job.sampling
            seed = None if sampling.seed is None else sampling.seed + prompt.id
            sampling = replace(sampling, max_tokens=min(sampling.max_tokens, room), seed=seed)
            salt = f"drydock-{prompt.id}-{time.time_ns()}" if self._salt else ""
            if recorded.images:
                decoded = await self._engine.chat(self._facts.dialect, recorded, sampling)
                sample.messages, sample.tools = [*in_a_template(recorded.messages)], list(recorded.tools)
                if decoded.prompt_ids and self._rendered:
                    await self._rendered(recorded.line, decoded.prompt_ids, prompt.ids)
            else:
                decoded = await self._engine.decode(self._facts.dialect, prompt.ids, sampling, salt)
            await self._take(sample, decoded)
        # Images can only be sent in a chat, whose last answer would be text and not tokens.
        if self._prefill and not recorded.images and not problem_of(sample, self._vocabulary):
            await self._engine.prefill(self._facts.dialect, sample)

    def _room(self, prompt: int) -> int:
        """Tokens that an output may have; reading it again asks for one token more."""
        return self._facts.context - prompt - 1 if self._facts.context else self._job.sampling.max_tokens

    async def _take(self, sample: Sample, decoded: Decoded) -> None:
        sample.output, sample.decode, sample.top = decoded.ids, decoded.logprobs, decoded.top
        sample.text, sample.finish, sample.cached = decoded.text, decoded.finish, decoded.cached
        if not decoded.ids and decoded.pieces:
            ids = await self._pieces_to_ids(decoded) if self._pieces_to_ids else None
            if ids is None:
                sample.problem = "the server names its tokens by texts that can't be told apart"
            else:
                sample.output = ids


async def score_as_they_come(
    reference: Reference, sampler: Sampler, store: Store, of: str, progress: Progress, tell: Tell, most_tokens: int
) -> None:
    """Have the reference score whatever has been sampled, until None comes."""
    queue, ended = sampler.scored, False
    while not ended:
        numbers: list[int] = []
        tokens = 0
        while tokens < most_tokens * _HANDED:
            if numbers and queue.empty():
                break
            number = await queue.get()
            if number is None:
                ended = True
                break
            if number not in store.scores(of):
                sample = store.sample(number)
                tokens += len(sample.prompt) + len(sample.output)
                numbers.append(number)
        await score(reference, store, of, numbers, progress, tell)


async def score(
    reference: Reference, store: Store, of: str, numbers: list[int], progress: Progress | None, tell: Tell | None
) -> None:
    """Have the reference score some samples."""
    if not numbers:
        return
    started = time.monotonic()
    rows = []
    for number in numbers:
        sample = store.sample(number)
        rows.append(sample.to_score())
    async for answer in reference.score(rows):
        store.scores(of).add({"id": answer["id"], "logprobs": answer["logprobs"][0], "top": answer["top"]})
        if progress is not None and tell is not None:
            progress.scored += 1
            tell(progress)
    if progress is not None:
        progress.seconds[of] = progress.seconds.get(of, 0.0) + time.monotonic() - started
