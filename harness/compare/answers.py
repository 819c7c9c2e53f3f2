"""Both sides' rewards: the trainer's model answers the same prompts, and a reward function judges both answers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from harness.agent.source import AgentSource
from harness.compare.accuracy import Accuracy, accuracy
from harness.compare.checkpoint import Store
from harness.compare.gather import Progress, Tell, wanted
from harness.compare.job import Job
from harness.compare.model import Conversation
from harness.compare.reference import DRIVER, Reference
from harness.errors import RewardUnusable

# Prompts that are handed to the reference together.
_HANDED = 64
_LINE = 1 << 26
# Seconds that a function may take to be imported; it may bring torch along.
_IMPORT = 600.0


class Rewarder:
    """The reward function in a process of its own; an asynchronous context manager.

    Args:
        python: its interpreter, the reference's.
        timeout: seconds that one call may take.
    """

    def __init__(self, python: str, function: AgentSource, timeout: float) -> None:
        self._python, self._function, self._timeout = python, function, timeout
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Rewarder:
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def _start(self) -> None:
        named = (self._function.module, self._function.class_name, *map(str, self._function.search))
        self._process = await asyncio.create_subprocess_exec(
            self._python, "-u", str(DRIVER / "rewards.py"), *named,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            limit=_LINE,
        )  # fmt: skip
        said = await self._read(max(self._timeout, _IMPORT))
        if "form" not in said:
            raise RewardUnusable(
                f"{self._function.given} can't be imported by {self._python}: {said.get('error')}",
                mend="REWARD=file.py:function   # COMPARE_PYTHON= names the interpreter that imports it",
            )

    async def _end(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def _read(self, timeout: float) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), timeout)
        except asyncio.TimeoutError:  # another class in Python 3.10
            return {"error": f"nothing within {timeout:g} s", "over": True}
        if not line:
            return {"error": "the reward function ended its process", "over": True}
        found: dict[str, Any] = json.loads(line)
        return found

    async def judge(self, asked: dict[str, Any]) -> dict[str, Any]:
        """One answer's reward: ``{"reward": number}`` or ``{"error": sentence}``."""
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(json.dumps(asked).encode() + b"\n")
            await self._process.stdin.drain()
        found = await self._read(self._timeout)
        if found.pop("over", False):
            await self._end()
            await self._start()
        return found


async def both_sides(
    job: Job, store: Store, reference: Reference, context: int, progress: Progress, tell: Tell
) -> Accuracy:
    """Have the trainer's model answer what the engine answered, and judge both.

    Args:
        context: tokens that a request may have at the server; 0: unknown.

    Raises:
        RewardUnusable: the function can't be imported.
        ReferenceUnusable, ReferenceTooBig: the model can't answer.
    """
    assert job.reward is not None
    numbered = enumerate(wanted(job))
    progress.answered = len(store.answers)
    async with Rewarder(job.python, job.reward, job.timeout) as rewarder:
        while chunk := list(itertools.islice(numbered, _HANDED)):
            todo = {
                number: conversation
                for number, conversation in chunk
                if number in store.samples and number not in store.answers and not store.sample(number).problem
            }
            await _some(job, store, reference, rewarder, todo, context, progress, tell)
    return accuracy(job.reward.given, (store.answers.get(number) for number in store.answers.ids()))


async def _some(
    job: Job, store: Store, reference: Reference, rewarder: Rewarder, todo: dict[int, Conversation], context: int,
    progress: Progress, tell: Tell,
) -> None:  # fmt: skip
    most = job.sampling.max_tokens
    asked = []
    for number in todo:
        prompt = store.sample(number).prompt
        room = min(most, context - len(prompt) - 1) if context else most
        asked.append({"id": number, "prompt": prompt, "max_tokens": max(1, room)})
    if not asked:
        return
    sampling = {"temperature": job.sampling.temperature, "top_p": job.sampling.top_p, "top_k": job.sampling.top_k,
                "seed": job.sampling.seed}  # fmt: skip
    made = {answer["id"]: answer["output"] async for answer in reference.generate(asked, sampling, job.dtypes[0])}
    for number, output in made.items():
        sample = store.sample(number)
        whole, texts = await reference.texts([sample.prompt, sample.output, output])
        judged = []
        for place, ids in ((1, sample.output), (2, output)):
            judged.append(await rewarder.judge(_question(todo[number], sample.prompt, ids, whole[0], whole[place],
                                                         texts[place])))  # fmt: skip
        store.answers.add({"id": number, "output": output, "text": texts[2], "engine": judged[0],
                           "reference": judged[1]})  # fmt: skip
        progress.answered = len(store.answers)
        tell(progress)


def _question(
    conversation: Conversation, prompt_ids: Sequence[int], ids: Sequence[int], prompt: str, whole: str, text: str
) -> dict[str, Any]:
    return {
        "row": dict(conversation.row),
        "prompt_ids": list(prompt_ids),
        "output_ids": list(ids),
        "prompt": prompt,
        "whole": whole,
        "text": text,
    }
