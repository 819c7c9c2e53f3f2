from __future__ import annotations

import asyncio
import json
import threading
import types
from typing import Any

import pytest

from harness.agent import contract, frames

HERE = __file__


def test_a_library_is_not_the_users() -> None:
    assert frames.is_own(HERE)
    assert not frames.is_own(json.__file__)
    assert not frames.is_own(pytest.__file__)
    assert not frames.is_own(contract.__file__)
    assert not frames.is_own("<frozen importlib>")


def test_a_traceback_is_told_with_its_source() -> None:
    def fails() -> None:
        json.loads("nonsense")

    try:
        fails()
    except ValueError as error:
        found = frames.of_traceback(error.__traceback__)
    assert [frame.function for frame in found if frame.own] == ["test_a_traceback_is_told_with_its_source", "fails"]
    assert found[1].source == 'json.loads("nonsense")'
    assert not found[-1].own


def test_an_await_chain_goes_to_its_end() -> None:
    async def inner() -> None:
        await asyncio.Event().wait()

    @types.coroutine
    def old_style() -> Any:
        yield from inner().__await__()

    async def generator() -> Any:
        await old_style()
        yield 1

    async def outer() -> None:
        async for _ in generator():
            pass

    async def main() -> list[frames.Frame]:
        task = asyncio.create_task(outer())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        chain = frames.await_chain(task.get_coro())
        task.cancel()
        return chain

    chain = asyncio.run(main())
    assert [frame.function for frame in chain if frame.own] == ["outer", "generator", "old_style", "inner"]
    assert chain[-1].function == "wait"
    assert chain[-1].file.endswith("locks.py")


def test_a_snapshot_shows_where_tasks_and_threads_wait() -> None:
    found: dict[str, Any] = {}

    async def waits() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(waits(), name="the waiting one")
        await asyncio.sleep(0)
        loop, ident = asyncio.get_running_loop(), threading.get_ident()
        thread = threading.Thread(target=lambda: found.update(frames.snapshot(loop, ident)))
        thread.start()
        thread.join()  # blocks this thread on purpose: that is what the snapshot must show
        task.cancel()

    asyncio.run(main())
    json.dumps(found)
    waiting = next(task for task in found["tasks"] if task["name"] == "the waiting one")
    assert [frame["function"] for frame in waiting["frames"]] == ["waits", "wait"]
    (main_thread,) = [thread for thread in found["threads"] if thread["main"]]
    assert any(frame["function"] == "main" and frame["own"] for frame in main_thread["frames"])


def test_a_finished_coroutine_has_no_chain() -> None:
    async def done() -> None: ...

    coroutine = done()
    coroutine.close()
    assert frames.await_chain(coroutine) == []
    assert frames.await_chain(None) == []
