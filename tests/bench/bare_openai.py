"""What stage 3 is measured against: calls by a bare AsyncOpenAI client, or the agent's own runs with nothing around.

A process of its own, as the agent's is: ``python -m tests.bench.bare_openai client|agent URL KEY RUNS``.
"""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from harness.checks import samples
from tests.support.harness import CLONE


@dataclass(frozen=True)
class Alone:
    """What it took.

    Args:
        seconds: from the first call to the end of the last.
        cpu_seconds: of the event loop's thread, in that time.
    """

    seconds: float
    cpu_seconds: float


async def measure(what: str, base_url: str, key: str, runs: int) -> Alone:
    """Run it in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.bare_openai", what, base_url, key, str(runs),
        cwd=CLONE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, _ = await process.communicate()
    assert process.returncode == 0, what
    return Alone(**json.loads(said))


async def _all(call: Callable[[int], Awaitable[Any]], runs: int) -> Alone:
    await call(0)  # as the check's first run does: what is imported late and opened once is no part of it
    started, cpu = time.monotonic(), time.thread_time()
    await asyncio.gather(*(call(number) for number in range(runs)))
    return Alone(time.monotonic() - started, time.thread_time() - cpu)


async def _client(base_url: str, key: str, runs: int) -> Alone:
    from openai import AsyncOpenAI

    data = samples.read(CLONE / "examples" / "data" / "capitals.jsonl")
    async with AsyncOpenAI(base_url=base_url, api_key=key) as client:

        async def call(number: int) -> None:
            messages = data.sample(number // 8 % len(data)).data["messages"]
            await client.chat.completions.create(model="simulated", messages=messages, max_tokens=16, temperature=1.0)

        return await _all(call, runs)


async def _agent(base_url: str, key: str, runs: int) -> Alone:
    from openai import DefaultAsyncHttpxClient

    data = samples.read(CLONE / "examples" / "data" / "capitals.jsonl")
    agent = runpy.run_path(str(CLONE / "examples" / "agents" / "single_turn.py"))["SingleTurn"]()
    async with DefaultAsyncHttpxClient() as shared:

        async def call(number: int) -> None:
            sample = data.sample(number // 8 % len(data)).data
            await agent.run(sample, base_url=base_url, api_key=key, http_client=shared)

        return await _all(call, runs)


def main() -> None:
    """Say what it took as one line of JSON."""
    what, base_url, key, runs = sys.argv[1:]
    os.environ["OPENAI_MODEL"] = "simulated"
    done = asyncio.run({"client": _client, "agent": _agent}[what](base_url, key, int(runs)))
    print(json.dumps(vars(done)))


if __name__ == "__main__":
    main()
