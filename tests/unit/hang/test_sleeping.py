"""Whoever is blamed and sleeps for a while that it has named itself isn't said to hang."""

from __future__ import annotations

from typing import Any

import pytest

from harness.hang.decide import diagnose
from harness.hang.model import Process, Sample, Thread
from harness.hang.verdict import Verdict
from tests.unit.hang.build import collective, dump, process, thread

LATE = thread("reward train.py:17", "main train.py:30", active=False)
WAITING: dict[str, Any] = {"id": "rank1", "pid": 2}


def asleep(first: float | None, second: float | None, *threads: Thread, which: str = "1", **more: Any) -> Process:
    """Met twice, two seconds apart, with the end of a thread's sleep at each look; None: it doesn't sleep."""
    found = process(*(threads or (LATE,)), **more)
    found.state = "S"
    found.samples = [
        Sample(found.samples[0].threads, at, "S", cpu_seconds=1.0, sleeps={} if end is None else {which: end})
        for at, end in ((0.0, first), (2.0, second))
    ]
    return found


def of(late: Process, *others: Process) -> Verdict:
    return diagnose(dump(late, asleep(None, None, collective(), **WAITING), *others))


def test_a_rank_that_sleeps_on_is_slow_and_a_longer_gap_would_tell() -> None:
    verdict = of(asleep(30.0, 30.0))
    assert (verdict.state, verdict.laggards) == ("slow", ["rank0"])
    assert "rank 0: asleep for 28 s more, as its own code wants; it goes on by itself then." in verdict.evidence
    assert verdict.next[0].startswith("make hang-dump GAP=31 ")


@pytest.mark.parametrize(
    ("first", "second"),
    [(None, None), (4000.0, 4000.0), (1.9, 3.9), (None, 30.0)],
    ids=["not asleep", "an hour", "looks again and again, and nobody works", "met asleep once"],
)
def test_others_are_still_called_hung(first: float | None, second: float | None) -> None:
    verdict = of(asleep(first, second))
    assert (verdict.state, verdict.laggards) == ("hung", ["rank0"])
    assert verdict.gap is None


def test_who_looks_again_and_again_waits_for_whoever_works() -> None:
    works = process(thread("evaluate eval.py:9", active=True), id="evaluator", role="worker", pid=3)
    works.samples = [Sample(works.samples[0].threads, at, "R", cpu_seconds=at) for at in (0.0, 2.0)]
    verdict = of(asleep(1.9, 3.9), works)
    assert verdict.state == "slow"
    assert any("evaluator works meanwhile" in text for text in verdict.evidence)


def test_all_who_are_blamed_have_to_sleep() -> None:
    other = asleep(None, None, id="rank2", pid=3)
    verdict = diagnose(dump(asleep(30.0, 30.0), asleep(None, None, collective(), **WAITING), other))
    assert verdict.state == "hung"


def test_a_sleep_of_another_thread_is_no_excuse_for_a_rank() -> None:
    assert of(asleep(30.0, 30.0, which="77")).state == "hung"


@pytest.mark.parametrize(("ends", "state"), [((8.0, 8.0), "slow"), ((1.5, 3.5), "hung"), ((None, None), "hung")])
def test_a_server_whose_handler_sleeps_answers_later(ends: tuple[float | None, float | None], state: str) -> None:
    """A thread that wakes up all the time is a monitor of the server's, and says nothing."""
    serving = thread("select selectors.py:415", "serve_forever socketserver.py:232", "main judge.py:40")
    handler = thread("do_POST judge.py:20", "process_request_thread socketserver.py:691", name="Thread-2", active=False)
    server = asleep(*ends, serving, handler, which="77", id="server", role="server", pid=9)
    client = process(
        thread("readinto socket.py:706", "_read_status http/client.py:286", "ask rollout.py:5"),
        id="driver", role="driver", pid=10,
    )  # fmt: skip
    client.samples = [Sample(client.samples[0].threads, at, "S", cpu_seconds=1.0) for at in (0.0, 2.0)]
    verdict = diagnose(dump(server, client))
    assert (verdict.state, verdict.cause, verdict.laggards) == (state, "server-blocked", ["server"])
