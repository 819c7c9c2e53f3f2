"""Await chains as they are read from memory, here from the test's own; other versions are in the scenario tests."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.processes.sampling import await_chains
from harness.processes.sampling.coroutines import chains as reading
from harness.processes.sampling.coroutines.chains import chains
from harness.processes.sampling.coroutines.lines import line_at
from harness.processes.sampling.coroutines.objects import Objects
from harness.processes.sampling.coroutines.peek import Peek, Unreadable
from harness.processes.sampling.reach import Memory

VERSION = (sys.version_info.major, sys.version_info.minor)


def code_of(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_of(constant)


@pytest.mark.parametrize("module", ["asyncio/tasks.py", "asyncio/base_events.py"])
def test_lines_are_those_that_python_tells(module: str) -> None:
    path = Path(os.__file__).parent / module
    told = 0
    for code in code_of(compile(path.read_text(), str(path), "exec")):
        for start, end, line in code.co_lines():
            if line is not None:
                for instruction in (start, end - 2):
                    assert line_at(code.co_linetable, code.co_firstlineno, instruction, old=False) == line
                    told += 1
    assert told > 500


@pytest.mark.parametrize("old", [True, False])
def test_any_table_gives_a_line_and_ends(old: bool) -> None:
    chance = random.Random(4)
    for length in range(60):
        assert isinstance(line_at(chance.randbytes(length), 7, chance.randrange(200), old), int)


async def one(never: asyncio.Event) -> None:
    await another(never)


async def another(never: asyncio.Event) -> None:
    async with asyncio.Lock():
        await asyncio.wait_for(
            never.wait(),
            1000,
        )


async def steps(never: asyncio.Event) -> Any:
    yield 1
    await never.wait()
    yield 2


async def iterates(never: asyncio.Event) -> None:
    async for _ in steps(never):
        pass


async def has_ended() -> None:
    pass


def read_while(tmp_path: Path, *coroutines: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is read from memory while these wait, and what Python says of itself at the same moment."""
    told = tmp_path / "told.json"
    read: dict[str, Any] = {}

    async def main() -> None:
        tasks = [asyncio.create_task(it(asyncio.Event()), name=f"task {it.__name__} ☃") for it in coroutines]
        ended = asyncio.create_task(has_ended())
        for _ in range(5):
            await asyncio.sleep(0)
        assert ended.done()
        read.update(chains(os.getpid(), VERSION))
        await_chains.write(str(told))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())
    return read, json.loads(told.read_text())


def without_the_one_that_asks(tasks: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(task) for task in tasks if task["task"].startswith("task "))


def test_chains_are_those_that_python_tells_of_itself(tmp_path: Path) -> None:
    read, told = read_while(tmp_path, one, one)
    assert without_the_one_that_asks(read["tasks"]) == without_the_one_that_asks(told["tasks"])
    assert [frame["name"] for frame in json.loads(without_the_one_that_asks(read["tasks"])[0])["stack"]][:2] == [
        "one",
        "another",
    ]


def test_a_chain_leads_through_asynchronous_generators(tmp_path: Path) -> None:
    read, _ = read_while(tmp_path, iterates)
    [task] = [task for task in read["tasks"] if task["task"].startswith("task ")]
    assert [frame["name"] for frame in task["stack"]] == ["iterates", "steps", "Event.wait"]
    assert task["waiting_on"] == "Future"


def test_members_of_a_set_from_which_others_were_taken() -> None:
    names = {"left", *(f"taken {number}" for number in range(50))}
    for number in range(50):
        names.remove(f"taken {number}")
    with Memory(os.getpid()) as memory:
        objects = Objects(Peek(memory), os.getpid(), VERSION)
        assert [objects.text(member) for member in objects.members(id(names))] == ["left"]


def test_a_loop_tells_its_timers_and_what_it_watches() -> None:
    found: list[Any] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
        loop.call_later(500, print)
        loop.call_later(70, print).cancel()
        found.extend(chains(os.getpid(), VERSION)["loops"])
        server.close()

    asyncio.run(main())
    [loop] = found
    assert (loop["timers"], loop["watched"]) == (1, 1)
    assert 400 < loop["next_timer"] <= 500


def test_a_process_without_asyncio_s_tasks_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Objects, "modules", lambda self: {"sys": 1})
    assert chains(os.getpid(), VERSION)["tasks"] == []


def test_an_unknown_version_is_not_tried() -> None:
    with pytest.raises(Unreadable, match=r"3\.9"):
        chains(os.getpid(), (3, 9))


def test_a_process_that_is_gone_is_unreadable() -> None:
    with pytest.raises(Unreadable):
        chains(2**22 + 1, VERSION)


def test_more_tasks_than_there_is_time_for_are_not_half_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(reading, "_SECONDS", -1.0)
    with pytest.raises(Unreadable, match="more tasks"):
        read_while(tmp_path, one)


class Rubbish(Memory):
    """Memory that holds whatever comes, the same at the same place."""

    def __init__(self, seed: int) -> None:
        super().__init__(os.getpid())
        self.seed = seed

    def read(self, address: int, length: int) -> bytes:
        return random.Random(self.seed * address).randbytes(length)


@pytest.mark.parametrize("seed", range(20))
def test_memory_that_holds_rubbish_is_unreadable_and_costs_little(seed: int) -> None:
    """A process may write there what it likes: sizes of billions, circles, addresses that lead nowhere."""
    with Memory(os.getpid()) as own:
        objects = Objects(Peek(own), os.getpid(), VERSION)
    with Rubbish(seed) as memory:
        objects.peek = Peek(memory)
        for look in (
            lambda: list(objects.items(4096)),
            lambda: list(objects.members(4096)),
            lambda: objects.elements(4096),
            lambda: objects.text(4096),
            lambda: objects.attribute(4096, "data"),
            lambda: reading._chain(objects, 4096),
            lambda: objects.modules(),
        ):
            try:
                look()
            except Unreadable:
                continue


def test_memory_full_of_zeros_is_unreadable() -> None:
    class Zeros(Rubbish):
        def read(self, address: int, length: int) -> bytes:
            return bytes(length)

    with Zeros(1) as memory, pytest.raises(Unreadable):
        Objects(Peek(memory), os.getpid(), VERSION)
