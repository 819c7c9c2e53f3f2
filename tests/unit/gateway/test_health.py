"""Healthy means tokens from the moment of asking on; nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx2
import pytest

from gateway.engines import sum_counters
from gateway.health import EngineProbeError, Health, check_health
from gateway.progress import Exchange, Progress
from tests.unit.gateway.support import Answer, FakeEngine, FakeProcess, Request

DEADLINE = 0.5
LOOK = 0.01


class FakeGenerator:
    """An engine that generates, hangs or refuses, and has a counter."""

    def __init__(self) -> None:
        self.hangs = False
        self.error: str | None = None
        self.count: Callable[[], float | None] = lambda: None
        self.asked = 0
        self.cancelled = 0

    async def generate_one_token(self) -> None:
        self.asked += 1
        if self.error:
            raise EngineProbeError(self.error)
        if self.hangs:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise

    async def token_count(self) -> float | None:
        return self.count()


async def check(generator: FakeGenerator, progress: Progress, process: FakeProcess | None = None) -> Health:
    return await check_health(process or FakeProcess(), generator, progress, seconds=DEADLINE, look_every=LOOK)


@pytest.mark.asyncio
async def test_an_idle_engine_proves_itself_with_a_token() -> None:
    health = await check(FakeGenerator(), Progress())
    assert health.healthy
    assert "one token" in health.reason


@pytest.mark.asyncio
async def test_an_engine_that_hangs_is_unhealthy_and_its_probe_is_withdrawn() -> None:
    generator = FakeGenerator()
    generator.hangs = True
    health = await check(generator, Progress())
    assert health == Health(False, "unhealthy", health.reason)
    assert "no token within" in health.reason
    assert generator.cancelled == generator.asked == 1


@pytest.mark.asyncio
async def test_progress_before_the_question_does_not_count() -> None:
    generator, progress = FakeGenerator(), Progress()
    generator.hangs = True
    progress.sign()
    assert not (await check(generator, progress)).healthy


@pytest.mark.asyncio
async def test_a_busy_engine_proves_itself_by_what_passes_through() -> None:
    generator, progress = FakeGenerator(), Progress()
    generator.hangs = True  # its queue is full, a probe would wait behind 512 others
    with Exchange(progress, generates=True) as exchange:
        asking = asyncio.create_task(check(generator, progress))
        await asyncio.sleep(0)
        for _ in range(3):
            exchange.chunk(b"data: x\n\n")
        health = await asking
    assert health.healthy
    assert generator.asked == 0


@pytest.mark.asyncio
async def test_long_answers_without_streaming_show_in_the_engines_counter() -> None:
    generator, progress = FakeGenerator(), Progress()
    generator.hangs = True
    counts = iter(range(1000))
    generator.count = lambda: float(next(counts))
    with Exchange(progress, generates=True):
        health = await check(generator, progress)
    assert health.healthy
    assert "counters" in health.reason


@pytest.mark.asyncio
async def test_a_counter_that_stands_still_is_no_evidence() -> None:
    generator = FakeGenerator()
    generator.hangs = True
    generator.count = lambda: 7.0
    assert not (await check(generator, Progress())).healthy


@pytest.mark.asyncio
async def test_a_long_step_of_an_engine_that_computes_is_believed_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    generator, progress, process = FakeGenerator(), Progress(), FakeProcess()
    generator.hangs = True
    used = iter((10.0, 10.4))
    process.cpu = lambda: next(used)
    with Exchange(progress, generates=True):
        health = await check(generator, progress, process)
    assert health.healthy
    assert "computing" in health.reason

    used = iter((10.0, 10.4))
    monkeypatch.setattr("gateway.health.COMPUTING_LIMIT", 0.1)
    with Exchange(progress, generates=True):
        assert not (await check(generator, progress, process)).healthy, "an endless loop computes too"


@pytest.mark.asyncio
async def test_an_engine_that_computes_for_nobody_is_unhealthy() -> None:
    generator, process = FakeGenerator(), FakeProcess()
    generator.hangs = True
    used = iter((10.0, 10.4))
    process.cpu = lambda: next(used)
    assert not (await check(generator, Progress(), process)).healthy


@pytest.mark.asyncio
async def test_a_busy_engine_that_only_waits_is_unhealthy() -> None:
    generator, progress = FakeGenerator(), Progress()
    generator.hangs = True
    with Exchange(progress, generates=True):
        assert not (await check(generator, progress)).healthy


@pytest.mark.asyncio
async def test_an_engine_that_refuses_says_why() -> None:
    generator = FakeGenerator()
    generator.error = "HTTP 500: out of memory"
    health = await check(generator, Progress())
    assert not health.healthy
    assert "out of memory" in health.reason


@pytest.mark.asyncio
async def test_a_stopped_process_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.health.STOPPED_FOR", 0.05)
    generator, process = FakeGenerator(), FakeProcess()
    generator.hangs = True
    process.stopped = 77
    health = await check(generator, Progress(), process)
    assert not health.healthy
    assert "process 77 is stopped" in health.reason


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("state", "status"), [("starting", "starting"), ("stopping", "unhealthy"), ("gone (exit code 9)", "unhealthy")]
)
async def test_an_engine_that_is_not_ready(state: str, status: str) -> None:
    process = FakeProcess()
    process.state = state
    generator = FakeGenerator()
    health = await check(generator, Progress(), process)
    assert (health.healthy, health.status) == (False, status)
    assert state in health.reason
    assert generator.asked == 0


@pytest.mark.asyncio
async def test_over_http(client: httpx2.AsyncClient, engine: FakeEngine) -> None:
    healthy = await client.get("/health")
    assert healthy.status_code == 200
    assert engine.body("/v1/completions")["max_tokens"] == 1

    async def broken(request: Request) -> Answer:
        return Answer(500, content=b"CUDA error")

    engine.answers["/v1/completions"] = broken
    unhealthy = await client.get("/health")
    assert unhealthy.status_code == 503
    assert "CUDA error" in unhealthy.json()["reason"]


def test_silence_counts_from_the_last_sign_or_the_first_request() -> None:
    now = 100.0
    progress = Progress(clock=lambda: now)
    progress.sign()
    now = 1000.0
    assert progress.silent_for() == 0, "an idle server is not silent"
    with Exchange(progress, generates=True), Exchange(progress, generates=True):
        now = 1010.0
        assert progress.silent_for() == 10
        progress.sign()
        now = 1015.0
        assert progress.silent_for() == 5
    assert progress.silent_for() == 0


def test_pings_and_opening_events_are_no_progress() -> None:
    progress = Progress()
    with Exchange(progress, generates=True) as exchange:
        exchange.chunk(b'data: {"type": "response.created"}\n\n')
        exchange.chunk(b'data: {"type": "response.in_progress"}\n\n')
        exchange.chunk(b":\n\n")
        assert progress.last_sign is None
        exchange.chunk(b'data: {"delta": "a"}\n\n')
        assert progress.last_sign is not None


def test_only_generation_counts_as_progress() -> None:
    progress = Progress()
    with Exchange(progress, generates=False) as exchange:
        for _ in range(5):
            exchange.chunk(b"llamacpp:n_decode_total 7\n")
        exchange.finished(200)
    assert progress.last_sign is None
    assert progress.completed == 0


def test_a_failed_generation_is_no_progress() -> None:
    progress = Progress()
    with Exchange(progress, generates=True) as exchange:
        exchange.finished(500)
    assert progress.last_sign is None
    assert (progress.completed, progress.failed) == (0, 1)


def test_counters_are_added_up_over_their_labels() -> None:
    page = '# HELP a_total x\na_total{engine="0"} 3\na_total{engine="1"} 4.0\nb_total 1e2\nc_total 9\n'
    assert sum_counters(page, ("a_total", "b_total")) == 107
    assert sum_counters(page, ("d_total",)) is None
