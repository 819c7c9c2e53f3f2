"""What is sampled is handed to the reference before the engine reads it, and nothing about it is kept before it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.compare.checkpoint import Store
from harness.compare.dialects.base import Decoded
from harness.compare.dialects.vllm import VLLM
from harness.compare.engine import Facts, Refused
from harness.compare.gather import Progress, Prompt, Sampler
from harness.compare.job import Job
from harness.compare.model import Conversation, Sample, Sampling
from harness.openai_api.http import Endpoint


class _Stop(Exception):
    pass


class _Engine:
    """Samples two tokens at once, and reads when it is told."""

    def __init__(self) -> None:
        self.reading, self.may = asyncio.Event(), asyncio.Event()
        self.refuses = False

    async def decode(self, *_: Any) -> Decoded:
        return Decoded(ids=[5, 6], logprobs=[-1.0, -2.0], top=[5, 6])

    async def prefill(self, _dialect: Any, sample: Sample) -> None:
        self.reading.set()
        await self.may.wait()
        if self.refuses:
            raise Refused(400, "too long")
        sample.prefill = [-1.0, -2.0]


def _row(number: int) -> dict[str, Any]:
    return {"id": number, "logprobs": [-1.1, -2.1], "top": [5, 6]}


async def _one(folder: Path, then: Callable[[_Engine, Sampler, Store], None]) -> tuple[Store, Progress]:
    store, engine, progress = Store(folder / "store"), _Engine(), Progress(1)
    job = Job(Endpoint("http://127.0.0.1:9/v1", ""), "m", folder / "data", 1, Sampling())
    facts = Facts(VLLM("m"), model="m", names=("m",), root="", context=0, version="")
    sampler = Sampler(job, engine, facts, store, progress, vocabulary=9, tell=lambda _: None)  # type: ignore[arg-type]
    prompt = Prompt(0, Conversation(1, text="x"), [3, 4])
    sampling = asyncio.ensure_future(sampler.one(prompt))
    await engine.reading.wait()
    number = sampler.scored.get_nowait()
    assert number == 0
    assert sampler.row(0) == {"id": 0, "prompt": [3, 4], "output": [5, 6]}
    sampler.keep("bfloat16", _row(0))
    # Killed now, a later comparison finds neither the sample nor a score of another output.
    assert (len(store.samples), len(store.scores("bfloat16"))) == (0, 0)
    then(engine, sampler, store)
    engine.may.set()
    await sampling
    assert sampler.scored.empty()
    sampler.keep("float32", _row(0))
    return store, progress


def test_scores_are_kept_with_their_sample(tmp_path: Path) -> None:
    store, progress = asyncio.run(_one(tmp_path, lambda *_: None))
    assert store.sample(0).prefill == [-1.0, -2.0]
    score = store.score("bfloat16", 0)
    assert score is not None
    assert score.logprobs == [-1.1, -2.1]
    assert store.score("float32", 0) is not None
    assert progress.sampled == 1


def test_what_cannot_be_read_loses_its_scores(tmp_path: Path) -> None:
    def refuse(engine: _Engine, _sampler: Sampler, _store: Store) -> None:
        engine.refuses = True

    store, _ = asyncio.run(_one(tmp_path, refuse))
    assert "refuses it" in store.sample(0).problem
    assert store.score("bfloat16", 0) is None
    assert store.score("float32", 0) is None


def test_what_was_given_up_is_not_scored(tmp_path: Path) -> None:
    def give_up(_engine: _Engine, sampler: Sampler, store: Store) -> None:
        sampler.give_up()
        assert sampler.row(0) is None
        sampler.keep("bfloat16", _row(0))
        assert len(store.scores("bfloat16")) == 0
        raise _Stop

    with pytest.raises(_Stop):
        asyncio.run(_one(tmp_path, give_up))


def test_what_is_left_follows_from_the_slower_side_and_from_now(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("harness.compare.gather.time.monotonic", lambda: now[0])
    progress = Progress(64, sampled=24, begun=0.0)
    assert "left" not in progress.text()
    progress.sampled = 44  # twenty of them now
    assert "left" not in progress.text()
    progress.seconds["loaded"] = 90.0
    progress.scored = 4
    assert progress.text().endswith(", 150 s left")  # 10 s for 4, not 100 s
    progress.scored = 60
    assert progress.text().endswith(", 100 s left")  # the server's 20 in 100 s
    progress.sampled = progress.scored = 64
    assert "left" not in progress.text()
