from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator

from harness.agent import holdings


async def stream() -> AsyncIterator[int]:
    try:
        yield 1
        yield 2
    finally:
        await asyncio.sleep(0.01)


async def left_by(*, reads_on: bool) -> tuple[list[str], int]:
    """What is counted, and how many tasks there really are, after a stream was left in its middle."""
    ours = asyncio.all_tasks()
    async for _ in stream():
        break
    if reads_on:
        task = asyncio.ensure_future(asyncio.sleep(10))
        task.set_name("the agent's own")
    gc.collect()
    await asyncio.sleep(0)  # the loop makes its task
    counted = holdings.count(ours, clients=0)["tasks"]
    there = len(asyncio.all_tasks() - ours)
    for other in asyncio.all_tasks() - ours:
        other.cancel()
    return counted, there


def test_the_loops_own_closing_of_a_stream_is_nobodys_task() -> None:
    counted, there = asyncio.run(left_by(reads_on=False))
    assert there == 1
    assert counted == []


def test_a_task_of_the_agents_is_still_counted() -> None:
    counted, _ = asyncio.run(left_by(reads_on=True))
    assert [name.partition(" at ")[0] for name in counted] == ["the agent's own"]
