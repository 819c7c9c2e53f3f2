"""Samples and scores: the server is kept busy, the reference scores what is there meanwhile, all goes to the store."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.compare import conversations
from harness.compare.checkpoint import Store
from harness.compare.dialects import Decoded, NotThere, in_a_template
from harness.compare.engine import Engine, Facts, Refused, problem_of
from harness.compare.job import Job
from harness.compare.model import Conversation, Sample
from harness.compare.reference import Reference, Unrenderable
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

    def __post_init__(self) -> None:
        self._kept, self._scored_before = self.sampled, self.scored

    def text(self) -> str:
        """For a line that moves."""
        if self.answered is not None:
            return f"{self.sampled} of {self.total} sampled, {self.answered} answered by the trainer's model, too"
        spent = time.monotonic() - self.begun
        rate = self.tokens / spent if spent else 0.0
        lefts = [_left(spent, self.sampled - self._kept, self.total - self.sampled)]
        if self.scoring:
            # Nothing is scored while the weights are being loaded.
            scoring = spent - self.seconds.get("loaded", 0.0)
            lefts.append(_left(scoring, self.scored - self._scored_before, self.total - self.scored))
        left = "" if None in lefts or not any(lefts) else f", {max(one or 0.0 for one in lefts):.0f} s left"
        scored = f", {self.scored} scored" if self.scoring else ""
        return f"{self.sampled} of {self.total} sampled{scored}, {rate:.0f} tokens/s{left}"


def _left(spent: float, done: int, rest: int) -> float | None:
    """Seconds until the rest is done at the same rate; None: nothing is done yet."""
    return None if done <= 0 and rest else spent / max(1, done) * rest


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


async def rendered(job: Job, reference: Reference, asked: Sequence[Conversation]) -> list[list[int]]:
    """Conversations as the reference's token ids.

    Raises:
        UsageError: the chat template or the tokenizer refuses one; names its line.
    """
    try:
        return await reference.render([as_asked(one) for one in asked])
    except Unrenderable as error:
        raise UsageError(
            f"{job.data.name}, line {asked[error.at].line}: {error}",
            consequence="Nothing was compared beyond it.",
            mend="DATA=FILE.jsonl   # without that line, or as the template wants it; or another REFERENCE=",
        ) from None


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
        # Sampled and being read: the reference has time for them meanwhile, but nothing about them is kept before they
        # are. At most as many as there are requests at once.
        self._unread: dict[int, Sample] = {}
        self._early: dict[int, list[tuple[str, dict[str, Any]]]] = {}
        # Sampled, and refused when they were to be read.
        self._lost: set[int] = set()

    def row(self, number: int) -> dict[str, Any] | None:
        """A sample as the reference takes it; None for one that was given up."""
        if number in self._unread:
            return self._unread[number].to_score()
        if number in self._lost:
            return None
        return self._store.sample(number).to_score() if number in self._store.samples else None

    def keep(self, of: str, row: dict[str, Any]) -> None:
        """Keep what somebody says about a sample, as soon as the sample itself is kept."""
        if row["id"] in self._unread:
            self._early.setdefault(row["id"], []).append((of, row))
        elif row["id"] in self._store.samples and row["id"] not in self._lost:
            self._store.scores(of).add(row)

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
        early = self._early.pop(sample.id, [])
        handed = self._unread.pop(sample.id, None) is not None
        if handed and sample.problem:
            self._lost.add(sample.id)
        elif handed:
            for of, row in early:
                self._store.scores(of).add(row)
        elif sample.problem:
            self._progress.scored += 1
        else:
            self.scored.put_nowait(sample.id)
        self._tell(self._progress)

    def give_up(self) -> None:
        """Let go of what is still being read."""
        self._unread.clear()

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
        if self._prefill and not recorded.images and not sample.problem and not problem_of(sample, self._vocabulary):
            self._unread[sample.id] = sample
            self.scored.put_nowait(sample.id)
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


async def load(
    job: Job, reference: Reference, dtype: str, *, beside: bool = False, after: asyncio.Event | None = None
) -> dict[str, Any]:
    """Have the reference load the weights in a dtype; what is loaded already isn't loaded again.

    Args:
        beside: keep what is loaded, if there is plenty of memory for both; nothing is returned where there isn't.
        after: something else that the same process is needed for first.
    """
    if after is not None:
        await after.wait()
    return await reference.load(
        path=job.reference, dtype=dtype, device=job.device, batch_tokens=job.batch_tokens, bytes=job.weights,
        free=_free(), beside=beside,
    )  # fmt: skip


def _free() -> float:
    """Bytes of memory that a process may take here."""
    import psutil

    return float(psutil.virtual_memory().available)


async def score_as_they_come(
    reference: Reference, sampler: Sampler, store: Store, dtypes: Sequence[str], progress: Progress, tell: Tell,
    most_tokens: int,
) -> None:  # fmt: skip
    """Have the reference score whatever has been sampled, in each of these dtypes, until None comes."""
    queue, ended = sampler.scored, False
    while not ended:
        rows: list[dict[str, Any]] = []
        tokens = 0
        while tokens < most_tokens * _HANDED:
            if rows and queue.empty():
                break
            number = await queue.get()
            if number is None:
                ended = True
                break
            if (row := sampler.row(number)) is None:
                progress.scored += 1
            else:
                tokens += len(row["prompt"]) + len(row["output"])
                rows.append(row)
        for dtype in dtypes:
            left = [row for row in rows if row["id"] not in store.scores(dtype)]
            started = time.monotonic()
            if not left:
                continue
            async for answer in reference.score(left, dtype=dtype):
                sampler.keep(dtype, row_of(answer))
                if dtype == dtypes[0]:
                    progress.scored += 1
                    tell(progress)
            progress.seconds[dtype] = progress.seconds.get(dtype, 0.0) + time.monotonic() - started


def row_of(answer: Mapping[str, Any]) -> dict[str, Any]:
    """What the reference answered about a sample, as it is kept."""
    return {"id": answer["id"], "logprobs": answer["logprobs"][0], "top": answer["top"]}
