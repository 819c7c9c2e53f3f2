"""Locks in a circle between the threads of one process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.hang.decide import diagnose
from harness.hang.model import LockWait, Process, Sample, Thread
from harness.hang.readers import read
from tests.unit.hang.build import collective, dump, process, pyspy, pyspy_text, thread

FIRST = thread("publish train.py:10", "main train.py:30")
SECOND = thread("collect train.py:20", "run threading.py:975", name="collector")
BEATS = thread("beat train.py:5", "run threading.py:975", name="heartbeat")


def waits(name: str, wants: str, *holds: str) -> LockWait:
    return LockWait(name, wants, f"{name} (train.py:1)", tuple((lock, "f (train.py:2)") for lock in holds))


def stuck(*locks: LockWait, threads: tuple[Thread, ...] = (FIRST, SECOND, BEATS), **more: str) -> Process:
    found = process(*threads, **{"id": "driver", "role": "driver", **more})  # type: ignore[arg-type]
    found.state, found.locks = "S", list(locks)
    found.samples = [Sample(threads, at, "S", cpu_seconds=1.0) for at in (0.0, 2.0)]
    return found


@pytest.mark.parametrize(
    "locks",
    [
        [waits("MainThread", "a", "a")],
        [waits("MainThread", "b", "a"), waits("collector", "a", "b")],
        [waits("MainThread", "c", "a"), waits("collector", "a", "b"), waits("third", "b", "c")],
        [waits("MainThread", "a"), waits("collector", "a", "b"), waits("third", "b", "a")],
    ],
    ids=["twice", "two", "three", "one waits for two that wait for each other"],
)
def test_a_circle_is_named_with_its_locks(locks: list[LockWait]) -> None:
    verdict = diagnose(dump(stuck(*locks)))
    assert (verdict.state, verdict.cause, verdict.confidence) == ("hung", "thread-deadlock", "likely")
    assert verdict.laggards == ["driver"]
    assert any(f"waits for {locks[-1].wants} in" in text for text in verdict.evidence)


@pytest.mark.parametrize(
    "locks",
    [
        [],
        [waits("MainThread", "a")],
        [waits("MainThread", "a", "b")],
        [waits("MainThread", "a"), waits("collector", "a")],
        [waits("MainThread", "b", "a"), waits("collector", "c", "b")],
    ],
)
def test_without_a_circle_nothing_is_said_of_one(locks: list[LockWait]) -> None:
    assert diagnose(dump(stuck(*locks))).cause != "thread-deadlock"


def test_the_only_thread_at_a_lock_waits_for_nobody() -> None:
    verdict = diagnose(dump(stuck(waits("MainThread", "a"), threads=(FIRST,))))
    assert verdict.cause == "thread-deadlock"
    assert any("only thread" in text for text in verdict.evidence)


def test_a_side_thread_s_circle_is_not_why_the_main_thread_computes() -> None:
    main = thread("train train.py:9", active=True)
    found = stuck(waits("x", "b", "a"), waits("y", "a", "b"), threads=(main, SECOND))
    assert diagnose(dump(found)).cause != "thread-deadlock"


def test_the_rank_whose_threads_are_in_a_circle_keeps_the_others_waiting() -> None:
    late = stuck(waits("MainThread", "a", "a"), id="rank0", role="rank")
    others = stuck(id="rank1", role="rank", threads=(collective(),))
    others.pid = 2
    verdict = diagnose(dump(late, others))
    assert (verdict.cause, verdict.laggards) == ("thread-deadlock", ["rank0"])


@pytest.mark.parametrize(
    "locks",
    [
        [{"thread": "MainThread", "wants": "a", "line": "f", "holds": [["a", "g"]]}],
        [{"wants": 1, "holds": []}, {"wants": "a"}, {"wants": "a", "holds": [1, ["x"], None]}, {}],
    ],
)
def test_what_a_manifest_says_of_locks_is_read_as_far_as_it_is_right(locks: list[object], tmp_path: Path) -> None:
    (tmp_path / "7.json").write_text(pyspy_text(pyspy("f train.py:2", "<module> train.py:9")))
    entry = {"id": "driver", "role": "driver", "pid": 7, "locks": locks, "samples": [{"file": "7.json"}]}
    (tmp_path / "manifest.json").write_text(json.dumps({"format": "drydock-hang/1", "processes": [entry]}))
    [found] = read(str(tmp_path)).processes
    assert [(lock.wants, lock.holds) for lock in found.locks] in ([("a", (("a", "g"),))], [("a", ())])
