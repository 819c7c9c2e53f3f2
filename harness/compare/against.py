"""Two servers, or one server in two ways: no trainer's model takes part, only its tokenizer."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

from harness.compare import limits, reasons
from harness.compare.checkpoint import Store
from harness.compare.dialects import Decoded, NotThere
from harness.compare.engine import Engine, Facts, Refused
from harness.compare.evidence import Evidence
from harness.compare.figures import Figures, Tally
from harness.compare.gather import Progress, Sampler, Tell, prompts, rendered
from harness.compare.job import Job, Outcome
from harness.compare.model import Conversation, Sample
from harness.compare.profile import Profiler
from harness.compare.reference import Reference
from harness.compare.tokens import TokenReport
from harness.errors import NoLogProbs, NoSuchRun

_SECOND, _ALONE = "second", "alone"


async def compare_against(job: Job, store: Store, tell: Tell) -> Outcome:
    """Compare a server with another, or with itself.

    Raises:
        ServerUnreachable, NoLogProbs, ReferenceUnusable, NoSuchRun, UsageError: there is nothing to compare.
    """
    continued = len(store.samples)
    progress = Progress(job.count, sampled=continued, scoring=True)
    second = job.second or job.endpoint
    at_once = 1 if job.against == "batch" else job.in_flight
    async with (
        Engine(job.endpoint, in_flight=job.in_flight, timeout=job.timeout) as engine,
        Engine(second, in_flight=at_once, timeout=job.timeout) as other,
        Reference(job.python) as reference,
    ):
        tokenizer = asyncio.ensure_future(reference.open(path=job.reference))
        try:
            server = await engine.look(job.model)
            facing = server if job.second is None else await other.look(job.model)
        except BaseException:
            tokenizer.cancel()
            raise
        facts = await tokenizer
        pair = _Pair(job, store, tell, engine, other, server, facing, reference, facts, progress)
        await pair.gather()
        return await pair.outcome(continued)


class _Pair:
    """Both sides with everything that they need."""

    def __init__(
        self, job: Job, store: Store, tell: Tell, engine: Engine, other: Engine, server: Facts, facing: Facts,
        reference: Reference, facts: dict[str, Any], progress: Progress,
    ) -> None:  # fmt: skip
        self.job, self.store, self.tell, self.progress = job, store, tell, progress
        self.engine, self.other, self.server, self.facing = engine, other, server, facing
        self.reference, self.facts = reference, facts
        self.notes: list[str] = []
        self.same = self.hits = self.asked = 0

    async def gather(self) -> None:
        """Sample on the first side, then have the second do or read the same."""
        if self.job.against in ("server", "run") and not self.facing.dialect.prefills:
            raise NoLogProbs(
                f"{self.other.endpoint.base_url} can't give log-probs of a prompt",
                consequence="It can't be asked what it says to the first one's tokens.",
            )
        if self.job.earlier is not None:
            self._take_earlier()
        else:
            sampler = Sampler(
                self.job, self.engine, self.server, self.store, self.progress, vocabulary=0, tell=self.tell,
                prefill=self.job.against != "cache", salt=self.job.against == "cache",
            )  # fmt: skip
            await self.engine.each(prompts(self.job, self.store, self._render), sampler.one)
        self.progress.scored = len(self.store.scores(_SECOND))
        await self.other.each(self._left(), self._second)

    def _take_earlier(self) -> None:
        """The samples of an earlier comparison, what its server said among them."""
        assert self.job.earlier is not None
        file = self.job.earlier / "samples.jsonl"
        if not file.is_file():
            raise NoSuchRun(f"{self.job.earlier} holds no samples of a comparison", mend="AGAINST=runs/FOLDER-compare")
        with file.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    sample = Sample(**json.loads(line))
                except (ValueError, TypeError, RecursionError):
                    raise NoSuchRun(
                        f"{file} has a line that is no sample of a comparison", mend="AGAINST=runs/FOLDER-compare"
                    ) from None
                if sample.id not in self.store.samples and sample.id < self.job.count:
                    # What is read now is held against what was read then, where the server could read at all.
                    sample.decode = sample.prefill or sample.decode
                    self.store.samples.add(sample.as_dict())
        self.progress.sampled = self.progress.total = len(self.store.samples)

    async def _render(self, asked: Sequence[Conversation]) -> list[list[int]]:
        return await rendered(self.job, self.reference, asked)

    async def _left(self) -> AsyncIterator[Sample]:
        for number in self.store.samples.ids():
            sample = self.store.sample(number)
            if not sample.problem and number not in self.store.scores(_SECOND):
                yield sample

    async def _second(self, sample: Sample) -> None:
        """What the second side says to one sample."""
        try:
            if self.job.against in ("server", "run"):
                await self._read(sample, _SECOND)
            else:
                await self._sample_again(sample)
        except (Refused, NotThere) as error:
            self.notes.append(f"sample {sample.id}: the second side says {error}"[:200])
        self.progress.scored += 1
        self.tell(self.progress)

    async def _read(self, sample: Sample, of: str) -> None:
        scored = await self.other.read(self.facing.dialect, sample.prompt, sample.output)
        self.store.scores(of).add({"id": sample.id, "logprobs": scored.logprobs, "top": scored.top})

    async def _sample_again(self, sample: Sample) -> None:
        """The same prompt once more; from the first other token on the two have nothing in common."""
        sampling = replace(self.job.sampling, max_tokens=len(sample.output))
        if self.job.against == "cache":
            await self._decode(sample, replace(sampling, max_tokens=1))
        again = await self._decode(sample, sampling)
        same = next((n for n, (a, b) in enumerate(zip(sample.output, again.ids, strict=False)) if a != b),
                    min(len(sample.output), len(again.ids)))  # fmt: skip
        self.store.scores(_SECOND).add(
            {"id": sample.id, "logprobs": again.logprobs[:same], "top": again.ids, "cached": again.cached}
        )
        if self.job.against == "batch" and sample.prefill:
            await self._read(sample, _ALONE)

    async def _decode(self, sample: Sample, sampling: Any) -> Decoded:
        return await self.other.decode(self.facing.dialect, sample.prompt, sampling)

    async def outcome(self, continued: int) -> Outcome:
        """Decide."""
        evidence, figures, problems, samples = self._measure()
        outcome = Outcome(
            verdict=reasons.decide(evidence), evidence=evidence, parts=self._parts(), server=self.server.as_dict(),
            reference={"path": self.job.reference, **self.facts, "second": self.facing.as_dict()},
            figures={name: found.as_dict() for name, found in figures.items()}, profile=evidence.profile,
            samples=samples, problems=problems, notes=self.notes, continued=continued,
        )  # fmt: skip
        worst = [self.store.sample(number) for number in evidence.profile.worst]
        if worst:
            pieces, _ = await self.reference.pieces([sample.output for sample in worst])
            _, texts = await self.reference.pieces([sample.prompt for sample in worst])
            for sample, own, text in zip(worst, pieces, texts, strict=True):
                outcome.pieces[sample.id], outcome.prompts[sample.id] = own, text
        return outcome

    def _parts(self) -> tuple[str, str]:
        engine, url = self.server.dialect.name, self.job.endpoint.base_url
        return {
            "server": (f"{engine} at {url}", f"{self.facing.dialect.name} at {self.other.endpoint.base_url}"),
            "batch": (f"{engine} at {url}, {self.job.in_flight} at once", "the same server, one at a time"),
            "cache": (f"{engine} at {url}, cold prefix cache", "the same server, warm prefix cache"),
            "run": (f"{self.job.earlier}", f"{engine} at {url} now"),
        }[self.job.against]

    def _measure(self) -> tuple[Evidence, dict[str, Figures], dict[str, int], int]:
        judged, alone, inside = Tally(), Tally(), Tally()
        profiler, problems, many = Profiler(), Counter[str](), 0
        for sample in self.store.all_samples():
            theirs = None if sample.problem else self.store.score(_SECOND, sample.id)
            if theirs is None:
                if sample.problem:
                    problems[sample.problem] += 1
                continue
            many += 1
            length = len(theirs.logprobs)
            again = self.job.against in ("batch", "cache")
            self.same += length == len(sample.output) and sample.decode == theirs.logprobs
            judged.add(sample.decode[:length], theirs.logprobs, sample.output if again else sample.top, theirs.top)
            profiler.add(sample.id, sample.prompt, sample.output[:length], sample.decode[:length], theirs.logprobs)
            if sample.prefill and self.job.against == "server":
                inside.add(sample.decode, sample.prefill)
            if (by_itself := self.store.score(_ALONE, sample.id)) is not None:
                alone.add(sample.prefill, by_itself.logprobs)
            cached = self.store.scores(_SECOND).get(sample.id).get("cached")
            self.asked += cached is not None
            self.hits += bool(cached)
        self._remark(many)
        tallies = {"first-second": judged, "prefill-alone": alone, "decode-prefill": inside}
        figures = {name: found for name, tally in tallies.items() if (found := tally.figures()).samples}
        found = figures.get("first-second", judged.figures())
        evidence = Evidence(
            judged=found, profile=profiler.profile(), held=limits.hold(found, self.job.limits), tokens=TokenReport(),
            sampling=self.job.sampling, reading=figures.get("prefill-alone"), inside=figures.get("decode-prefill"),
            against=self.job.against,
        )  # fmt: skip
        return evidence, figures, dict(problems), many

    def _remark(self, many: int) -> None:
        if self.job.against in ("batch", "cache"):
            self.notes.append(f"{self.same} of {many} outputs are the same to the last bit of every log-prob")
        if self.job.against != "cache":
            return
        if not self.asked:
            self.notes.append(
                "the server doesn't say what came from its prefix cache (vLLM: --enable-prompt-tokens-details)"
            )
        elif not self.hits:
            self.notes.append("no prompt came from the prefix cache: prompts shorter than one of its blocks never do")
        else:
            self.notes.append(f"{self.hits} of {many} prompts came, in part, from the prefix cache")
