"""A log point reaches the workers that come while it waits: Ray creates an actor after its driver has begun."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.breakpoints import trace
from harness.breakpoints.ask import NoAgent
from harness.breakpoints.model import Worker

HIT = {"hit": "-1.0", "values": {}, "time": 1.0, "thread": "MainThread"}
ARMED = {"armed": {"functions": 1, "files": ["reward.py"], "how": "sys.monitoring"}}

driver = Worker(ip="192.0.2.1", pid=1, worker_id="d", role="driver")
actor = Worker(ip="192.0.2.1", pid=2, worker_id="a", actor="RewardModel")


class Cluster:
    """Its processes, what each says, and who is told of a conversation's end."""

    def __init__(self) -> None:
        self.there: list[Worker] = []
        self.says: dict[int, queue.SimpleQueue[dict[str, Any] | None]] = {}
        self.refusals: dict[int, int] = {}
        self.looks = 0
        self.looked: Callable[[int], None] = lambda _: None

    def starts(self, worker: Worker) -> None:
        self.says.setdefault(worker.pid, queue.SimpleQueue()).put(ARMED)
        self.there.append(worker)

    def ends(self, worker: Worker) -> None:
        self.there.remove(worker)
        self.says[worker.pid].put(None)

    def later(self) -> list[Worker]:
        self.looks += 1
        self.looked(self.looks)
        return list(self.there)

    def conversation(self, _ip: str, pid: int, _question: dict[str, Any]) -> Conversation:
        if self.refusals.get(pid, 0) > 0:
            self.refusals[pid] -= 1
            raise NoAgent("nothing listens")
        return Conversation(self.says[pid])


class Conversation:
    def __init__(self, says: queue.SimpleQueue[dict[str, Any] | None]) -> None:
        self._says = says

    def answers(self) -> Iterator[dict[str, Any]]:
        while (answer := self._says.get()) is not None:
            yield answer

    def close(self) -> None:
        self._says.put(None)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(trace, "Conversation", made.conversation)
    monkeypatch.setattr(trace, "LOOK_SECONDS", 0.001)
    return made


def traced(cluster: Cluster, first: list[Worker], hits: int = 1, seconds: float = 60) -> tuple[trace.Result, list[Any]]:
    got: list[Any] = []
    request = trace.Request("reward.py", 3, hits=hits, seconds=seconds)
    result = trace.run(request, first, hit=got.append, armed=lambda _: None, later=cluster.later)
    return result, got


def test_an_actor_that_is_created_after_the_driver_is_traced_too(cluster: Cluster) -> None:
    cluster.starts(driver)

    def looked(number: int) -> None:
        if number == 3:
            cluster.starts(actor)
            cluster.says[actor.pid].put(HIT)

    cluster.looked = looked
    result, got = traced(cluster, [driver])
    assert [(hit["actor"], hit["pid"]) for hit in got] == [("RewardModel", 2)]
    assert {worker.pid for worker, _ in result.armed} == {1, 2}


def test_a_program_that_is_not_there_yet_is_waited_for(cluster: Cluster) -> None:
    def looked(number: int) -> None:
        if number == 3:
            cluster.starts(actor)
            cluster.says[actor.pid].put(HIT)

    cluster.looked = looked
    result, _ = traced(cluster, [])
    assert (result.hits, result.timed_out) == (1, False)


def test_one_that_is_just_starting_is_asked_again(cluster: Cluster) -> None:
    cluster.refusals[actor.pid] = 3
    cluster.starts(actor)
    cluster.says[actor.pid].put(HIT)
    result, _ = traced(cluster, [actor])
    assert (result.hits, result.refused) == (1, [])


def test_one_that_refuses_for_good_ends_it_long_before_the_time_is_over(cluster: Cluster) -> None:
    cluster.refusals[actor.pid] = 10**6
    cluster.starts(actor)
    result, _ = traced(cluster, [actor])
    assert result.timed_out is False
    assert result.refused == [(actor, "nothing listens")]
    assert 10**6 - cluster.refusals[actor.pid] == trace.ASKED_TIMES


def test_when_all_have_ended_and_nobody_comes_it_ends(cluster: Cluster) -> None:
    cluster.starts(driver)
    cluster.looked = lambda number: cluster.ends(driver) if number == 3 else None
    result, _ = traced(cluster, [driver])
    assert (result.hits, result.timed_out, len(result.armed)) == (0, False, 1)


def test_nobody_at_all_is_a_time_out(cluster: Cluster) -> None:
    result, _ = traced(cluster, [], seconds=0.05)
    assert (result.timed_out, result.armed) == (True, [])


def test_a_line_that_is_nowhere_is_said_without_waiting(cluster: Cluster) -> None:
    cluster.says[driver.pid] = queue.SimpleQueue()
    cluster.says[driver.pid].put({"armed": {"functions": 0, "files": ["reward.py"], "near": [4]}})
    cluster.there.append(driver)
    result, _ = traced(cluster, [driver])
    assert result.timed_out is False
