"""How much `dev` and each Ray node may take."""

from __future__ import annotations

import pytest

from harness.errors import BadSetting
from harness.settings import load_settings
from harness.stack.limits import GIB, Engine, Limits, decide, look


def limits(engine: Engine, weights: int = 0, **environ: str) -> Limits:
    return decide(load_settings(environ=environ), engine, weights)


@pytest.mark.parametrize(
    ("total", "weights", "left"),
    [(8, 0, 7), (24, 0, 21), (24, GIB, 19), (1024, 0, 896), (2, 0, 1), (8, 40 * GIB, 4)],
)
def test_the_machine_and_the_server_have_room(total: int, weights: int, left: int) -> None:
    assert limits(Engine(total * GIB, 4), weights).memory == left * GIB


def test_a_little_more_or_less_memory_is_the_same_limit() -> None:
    assert limits(Engine(24 * GIB + 5_000_000)) == limits(Engine(24 * GIB + 90_000_000))


def test_processes_grow_with_the_cores() -> None:
    assert [limits(Engine(8 * GIB, cores)).pids for cores in (0, 2, 32, 192)] == [8192, 8192, 8192, 49152]


def test_what_is_asked_for_counts() -> None:
    found = limits(Engine(8 * GIB, 4), MEMORY_LIMIT="1.5g", PIDS_LIMIT="1000", CPU_LIMIT="2.5")
    assert (found.memory, found.pids, found.cpus) == (GIB * 3 // 2, 1000, 2.5)
    assert found.shown() == "dev and each Ray node: 1.5 GiB of memory, 1000 processes, 2.5 cores"
    assert limits(Engine(8 * GIB), MEMORY_LIMIT="none").memory == 0
    assert limits(Engine()).memory == 0  # the engine doesn't say


@pytest.mark.parametrize(
    "asked",
    [{"MEMORY_LIMIT": "lots"}, {"MEMORY_LIMIT": "-1g"}, {"MEMORY_LIMIT": "64m"}, {"PIDS_LIMIT": "20"}],
)
def test_what_cannot_work_is_refused(asked: dict[str, str]) -> None:
    with pytest.raises(BadSetting, match=next(iter(asked))):
        decide(load_settings(environ=asked), Engine(8 * GIB, 4))


def test_an_engine_that_cannot_limit_says_so() -> None:
    class Client:
        def info(self) -> dict[str, object]:
            return {"MemTotal": GIB, "NCPU": 2, "MemoryLimit": False, "PidsLimit": True}

    assert look(Client()) == Engine(GIB, 2, ("memory",))
