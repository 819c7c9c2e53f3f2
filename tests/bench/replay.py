"""Calls answered from a recording against the same SDK client on a transport that does nothing."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from typing import Any

import httpx2
import openai

from harness.openai_api.observer import current_run
from harness.openai_api.recording.exchange import Exchange
from harness.openai_api.recording.inside import Inside
from harness.openai_api.recording.matching import Matcher

RATIO = 0.9
CALLS = 400
ORIGIN = "http://127.0.0.1:1"
HEADERS = [("content-type", "application/json")]
BODY = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Paris"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
    }
).encode()


class Nothing(httpx2.AsyncBaseTransport):
    """Answers each request with the same bytes."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await asyncio.sleep(0)
        return httpx2.Response(200, headers=HEADERS, stream=httpx2.ByteStream(BODY))


class Bodies(httpx2.AsyncBaseTransport):
    """Keeps what the SDK asks, as a recording would."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, bytes]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append((request.url.raw_path.decode(), request.content))
        return httpx2.Response(200, headers=HEADERS, stream=httpx2.ByteStream(BODY))


async def ask(transport: Any = None) -> float:
    """Calls one after the other; calls a second of CPU time, which neighbours on the machine don't stretch."""
    http_client = httpx2.AsyncClient(transport=transport, timeout=60)
    async with openai.AsyncOpenAI(base_url=f"{ORIGIN}/v1", api_key="x", http_client=http_client) as client:
        started = time.process_time()
        for number in range(CALLS):
            messages: Any = [{"role": "user", "content": f"What is the capital of France? {number}"}]
            await client.chat.completions.create(model="m", messages=messages, max_tokens=16)
        return CALLS / (time.process_time() - started)


def run(pairs: int = 9) -> bool:
    """Measure and print; returns whether the goal is met."""
    bodies = Bodies()
    asyncio.run(ask(bodies))
    exchanges = [
        Exchange(0, number, "POST", path, body, 200, tuple(HEADERS), (BODY,), (0.0,), in_process=True)
        for number, (path, body) in enumerate(bodies.seen, start=1)
    ]
    rounds = iter(range(10**6))
    inside = Inside(ORIGIN, lambda _run: Matcher(0, exchanges), lambda event, **_details: None)

    def replayed() -> float:
        # A run of its own each time: a recorded answer is given once.
        current_run.set(next(rounds))
        inside.install()
        try:
            return asyncio.run(ask())
        finally:
            inside.remove()

    def bare() -> float:
        return asyncio.run(ask(Nothing()))

    replayed(), bare()
    measured = [(replayed(), bare()) for _ in range(pairs)]
    ratio = statistics.median(ours / theirs for ours, theirs in measured)
    ours, theirs = (statistics.median(column) for column in zip(*measured, strict=True))
    verdict = "met" if ratio >= RATIO else "MISSED"
    print(f"replay of {CALLS} calls by the OpenAI SDK, calls a CPU second")
    print(f"  from a recording: median {ours:.0f}\n  from a transport that does nothing: median {theirs:.0f}")
    print(f"  ratio {ratio:.2f} (goal: ≥ {RATIO}): {verdict}")
    return ratio >= RATIO
