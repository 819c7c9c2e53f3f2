"""Answers of several ways in become one dump."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import Any

import pytest

from harness.hang.ask import ask
from harness.hang.collect import assemble, collect
from harness.hang.decide import diagnose
from harness.hang.standing import progress
from harness.hang.ways import Unreachable
from harness.hang.ways.containers import ContainerWay
from harness.processes.sampling.model import NodeAnswer, ProcessEntry, SampleEntry, SampleRequest
from tests.unit.hang.build import C10D, pyspy
from tests.unit.stack.test_judge import RUNNING

REQUEST = SampleRequest(samples=1)


def answer(host: str, *entries: ProcessEntry, container: str = "", dumps: dict[str, bytes] | None = None) -> NodeAnswer:
    """An answer of one node, with a stack for each process that names one."""
    stacks = {
        sample.file: json.dumps([pyspy(f"all_reduce {C10D}:3252", "step train.py:7", pid=entry.pid)]).encode()
        for entry in entries
        for sample in entry.samples
        if sample.file
    }
    return NodeAnswer(
        host=host, boot_id="boot", pid_namespace=1, container=container, processes=list(entries),
        dumps={**stacks, **(dumps or {})},
    )  # fmt: skip


def rank(number: int, pid: int, **more: Any) -> ProcessEntry:
    """A rank that was sampled."""
    return ProcessEntry(
        role="rank", rank=number, world_size=2, pid=pid, command="python train.py",
        samples=[SampleEntry(file=f"{pid}.json")], **more,
    )  # fmt: skip


def test_two_nodes_may_have_the_same_numbers() -> None:
    collected = assemble([answer("a", rank(0, 7)), answer("b", rank(1, 7))], {}, REQUEST)
    assert sorted(collected.dumps) == ["rank0.json", "rank1.json"]
    assert [(e.id, e.host) for e in collected.manifest.processes] == [("rank0", "a"), ("rank1", "b")]
    assert diagnose(collected.dump).state == "hung"


def test_a_process_that_two_ways_see_is_there_once() -> None:
    same: dict[str, Any] = {"pid_namespace": 99, "own_pid": 7, "start_ticks": 1234}
    outside = ProcessEntry(pid=4711, command="python train.py", error="denied", **same)
    collected = assemble(
        [answer("host", outside), answer("c", rank(0, 7, **same), container="ray-head-1")], {}, REQUEST
    )
    [entry] = collected.manifest.processes
    assert (entry.pid, entry.container, entry.id) == (7, "ray-head-1", "rank0")
    assert list(collected.dumps) == ["rank0.json"]


def test_children_belong_to_their_rank_on_their_own_node() -> None:
    child: dict[str, Any] = {"role": "child", "command": "python train.py"}
    collected = assemble(
        [
            answer("a", rank(0, 7), ProcessEntry(pid=8, ppid=7, **child, samples=[SampleEntry(file="8.json")])),
            answer("b", rank(1, 7), ProcessEntry(pid=8, ppid=7, **child, samples=[SampleEntry(file="8.json")])),
        ],
        {},
        REQUEST,
    )
    assert sorted(collected.dumps) == ["rank0.child8.json", "rank0.json", "rank1.child8.json", "rank1.json"]


def test_logs_of_two_nodes_keep_their_names_apart() -> None:
    first, second = rank(0, 7, logs=["logs/train.log"]), rank(1, 7, logs=["logs/train.log"])
    log: Any = b"Traceback (most recent call last):\n  File\nValueError: bad\n"
    collected = assemble(
        [answer("a", first, dumps={"logs/train.log": log}), answer("b", second, dumps={"logs/train.log": b"fine\n"})],
        {},
        REQUEST,
    )
    assert collected.dumps["logs/train.log"] == log
    assert collected.dumps["logs/train@2.log"] == b"fine\n"
    assert [entry.logs for entry in collected.manifest.processes] == [["logs/train.log"], ["logs/train@2.log"]]
    assert [hint.source for hint in collected.dump.hints] == ["logs/train.log"]


def test_a_missing_rank_is_called_missing_only_when_everybody_was_asked() -> None:
    alone = rank(0, 7, job="127.0.0.1:1")
    asked = assemble([answer("a", alone)], {}, REQUEST)
    assert [entry.missing for entry in asked.manifest.processes] == [False, True]
    unreachable = assemble([answer("a", rank(0, 7, job="127.0.0.1:1"))], {"b": "no route"}, REQUEST)
    assert [entry.missing for entry in unreachable.manifest.processes] == [False]
    assert any("b couldn't be asked: no route" in note for note in diagnose(unreachable.dump).notes)


class Waits:
    """A way that answers, raises, or doesn't come back until it is stopped."""

    def __init__(self, name: str, result: NodeAnswer | Exception | None) -> None:
        self.name, self._result, self.stopped = name, result, threading.Event()

    def sample(self, request: SampleRequest, deadline: float) -> NodeAnswer:
        if self._result is None:
            self.stopped.wait(60)
            raise Unreachable("stopped")
        if isinstance(self._result, Exception):
            raise self._result
        return self._result

    def stop(self) -> None:
        self.stopped.set()


def test_who_cannot_be_asked_is_named_and_not_waited_for() -> None:
    silent = Waits("silent", None)
    ways = [
        Waits("a", answer("a", rank(0, 7))),
        Waits("b", Unreachable("no route")),
        Waits("c", OSError("broken")),
        silent,
    ]
    started = time.monotonic()
    collected = collect(ways, SampleRequest(samples=1, timeout_seconds=0.2), grace_seconds=0.1)
    assert time.monotonic() - started < 10
    assert silent.stopped.is_set()
    assert collected.manifest.unreachable == {
        "b": "no route",
        "c": "OSError: broken",
        "silent": "it didn't answer in time",
    }
    assert [entry.id for entry in collected.manifest.processes] == ["rank0"]


def test_what_is_done_in_this_process_is_waited_for_however_long_the_others_are_back() -> None:
    """On a crowded machine it takes a multiple of what a container's few processes take, and always ends by itself."""
    here = Waits("here", None)
    here.ends_itself = True  # type: ignore[attr-defined]
    ways = [Waits("a", answer("a", rank(0, 7))), here]
    # Nobody is waited for any longer once the other is back, but for the one that ends by itself.
    request = SampleRequest(samples=1, gap_seconds=0, timeout_seconds=60, dump_seconds=0.01)
    asked: list[tuple[list[NodeAnswer], dict[str, str]]] = []
    thread = threading.Thread(target=lambda: asked.append(ask(ways, request, grace_seconds=0.0)))
    thread.start()
    thread.join(1.0)
    assert thread.is_alive()
    assert not here.stopped.is_set()
    here.stopped.set()
    thread.join()
    [(answers, unreachable)] = asked
    assert len(answers) == 1
    assert unreachable == {"here": "stopped"}, "with what it said itself"


def test_who_is_back_is_not_late_because_its_thread_still_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a thread that has said all may wait for a core before it ends."""
    monkeypatch.setattr(threading.Thread, "is_alive", lambda thread: True)
    ways = [Waits("a", answer("a", rank(0, 7))), Waits("b", answer("b", rank(1, 8)))]
    answers, unreachable = ask(ways, SampleRequest(samples=1))
    assert (len(answers), unreachable) == (2, {})
    assert not any(way.stopped.is_set() for way in ways)


def test_a_connection_that_was_closed_can_be_stopped() -> None:
    way = ContainerWay(None, RUNNING, "image")
    way.stop()
    one, other = socket.socketpair()
    way._connection = connection = socket.SocketIO(one, "rwb")
    way.stop()
    assert other.recv(1) == b"", "it was hung up"
    connection.close()
    way.stop()
    one.close()
    other.close()


def test_a_process_that_did_not_move_has_one_file_for_both_samples() -> None:
    entry = rank(0, 7)
    entry.samples = [SampleEntry(file="7.json"), SampleEntry(file="7.json", way="unmoved", at=2.0)]
    collected = assemble([answer("a", entry)], {}, REQUEST)
    assert [sample.file for sample in collected.manifest.processes[0].samples] == ["rank0.json", "rank0.json"]
    assert list(collected.dumps) == ["rank0.json"]
    [process] = collected.dump.processes
    assert len(process.samples) == 2
    assert progress(process) == "still"
