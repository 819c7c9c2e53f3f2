"""The verdict on scaling, from rows made by hand."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest

from harness.checks import scaling, stage3_rows
from harness.checks.stage3_data import (
    Asked,
    CallRow,
    ClientPlace,
    LoadData,
    LoopTime,
    RunRow,
    Stack,
    StackFrame,
    Stall,
    Wait,
    WaitKind,
)
from harness.checks.stage3_rows import Rows

OWN = StackFrame(file="/work/agent.py", line=7, function="run", own=True)
SELECT = StackFrame(file="/usr/lib/python3/asyncio/locks.py", line=3, function="acquire")
SDK = StackFrame(file="/venv/openai/_base_client.py", line=9, function="post")
SYNC = StackFrame(file="/venv/httpx2/_client.py", line=9, function="send")
MATHS = StackFrame(file="/venv/numpy/linalg.py", line=9, function="inv")


def rows(calls: int = 64, at_once: int = 64, **data: Any) -> Rows:
    """Ten seconds of runs with a call of a second each, so many of them at once."""
    made = tuple(
        CallRow(
            run=number,
            number=1,
            path="/v1/chat/completions",
            started=0.0,
            sent=float(number // at_once),
            ended=number // at_once + 1.0,
            status=200,
        )
        for number in range(calls)
    )
    runs = tuple(
        RunRow(run=call.run, group=0, line=1, started=0.0, ended=call.ended, outcome="returned") for call in made
    )
    asked = Asked(runs=calls, in_flight=calls, groups=1, group_size=calls, server="simulated")
    return Rows(runs, made, (), LoadData(asked=asked, wall=10.0, **data))


def wait(kind: WaitKind, seconds: float, *frames: StackFrame, most: int = 60) -> Wait:
    return Wait(kind=kind, frames=frames or (OWN, SELECT), run_seconds=seconds, most=most)


def kinds(given: Rows, bare_rate: float | None = 6.4) -> list[str]:
    return [cause.kind for cause in scaling.judge(given, bare_rate=bare_rate).causes]


def test_waiting_for_the_server_scales_however_long_it_is() -> None:
    verdict = scaling.judge(rows(waits=(wait("model", 600.0),)), bare_rate=6.4)
    assert (verdict.kind, verdict.peak) == ("scales", 64)
    assert verdict.ratio == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["lock", "semaphore", "queue", "condition", "thread"])
def test_standing_in_line_serialises(kind: WaitKind) -> None:
    given = rows(waits=(wait(kind, 500.0), wait("model", 100.0, SDK)))
    verdict = scaling.judge(given, bare_rate=None)
    assert verdict.kind == "serialises"
    assert verdict.causes[0].own == (OWN,)
    assert kinds(rows(waits=(wait(kind, 50.0), wait("model", 500.0)))) == []
    # Not the user's own doing: no line of theirs is on the way.
    assert kinds(rows(waits=(wait(kind, 500.0, SDK, SELECT),))) == []


@pytest.mark.parametrize("kind", ["sleep", "event", "other", "socket", "process", "loop"])
def test_waiting_for_oneself_does_not(kind: WaitKind) -> None:
    assert kinds(rows(waits=(wait(kind, 500.0), wait("model", 100.0)))) == []


def test_too_few_connections_are_told_where_the_client_was_made() -> None:
    made = ClientPlace(file="/work/agent.py", line=3, source="client = ...", limit=8)
    given = rows(at_once=8, waits=(wait("connection", 500.0, OWN, SDK),), clients=(made,))
    (cause,) = scaling.judge(given, bare_rate=None).causes
    assert (cause.kind, cause.own[-1].line, cause.detail) == ("connection", 3, "max_connections=8")
    # At the start all wait until their connections are made; then all are on their way.
    assert kinds(rows(at_once=64, waits=(wait("connection", 500.0, OWN, SDK),), clients=(made,))) == []


def test_who_waits_for_a_name_or_an_address_has_connections_enough() -> None:
    """Calls that are never sent hold no connection that another could wait for; nor do clients of one run each."""
    waits = (wait("connection", 500.0, OWN, SDK),)
    made = ClientPlace(file="/work/agent.py", line=3, source="client = ...", limit=8)
    unsent = rows(at_once=8, waits=waits, clients=(made,))
    unsent = replace(unsent, calls=tuple(call.model_copy(update={"sent": None}) for call in unsent.calls))
    assert kinds(unsent) == []
    own = ClientPlace(file="/work/agent.py", line=3, source="client = ...", limit=1000, made=64)
    assert kinds(rows(at_once=8, waits=waits, clients=(own,))) == []
    # One connection in each of few clients is too few all the same.
    few = ClientPlace(file="/work/agent.py", line=3, source="client = ...", limit=1, made=8)
    assert kinds(rows(at_once=8, waits=waits, clients=(few,))) == ["connection"]


@pytest.mark.parametrize(
    ("below", "waiting", "kind"),
    [
        ((SYNC,), True, ["blocking-http"]),
        ((), True, ["blocking-call"]),
        ((MATHS,), False, ["cpu"]),
        ((), False, ["cpu"]),
        ((SDK,), False, []),
    ],
)
def test_what_stops_the_loop_is_told_apart(below: tuple[StackFrame, ...], waiting: bool, kind: list[str]) -> None:
    stall = Stall(started=0.0, seconds=4.0, frames=(OWN, *below), waiting=waiting)
    assert kinds(rows(stalls=(stall,))) == kind


def test_short_callbacks_that_fill_the_time_count_as_well() -> None:
    assert kinds(rows(profile=(Stack(frames=(OWN, MATHS), seconds=4.0),))) == ["cpu"]
    assert kinds(rows(profile=(Stack(frames=(OWN, SDK), seconds=4.0),))) == []


@pytest.mark.parametrize(
    ("below", "slept", "kind"),
    [
        (MATHS, 4.0, "blocking-call"),  # time.sleep, a lock, a full pipe, each of them short
        (SYNC, 4.0, "blocking-http"),
        (SDK, 4.0, "blocking-call"),  # whatever lies below: the loop of an asynchronous SDK doesn't sleep in a call
        (MATHS, 1.0, "cpu"),
    ],
)
def test_many_short_sleeps_in_calls_block_the_loop_as_one_long_one_does(
    below: StackFrame, slept: float, kind: str
) -> None:
    assert kinds(rows(profile=(Stack(frames=(OWN, below), seconds=4.1, slept=slept),))) == [kind]


def test_a_line_that_sleeps_is_not_said_to_compute_by_what_both_measures_differ() -> None:
    """The profile has a little more of the same sleep than the stalls, whose first look doesn't count."""
    stalls = (Stall(started=0.0, seconds=3.9, frames=(OWN,), waiting=True),)
    assert kinds(rows(stalls=stalls, profile=(Stack(frames=(OWN,), seconds=4.1, slept=4.0),))) == ["blocking-call"]


def test_what_a_busy_machine_took_is_left_out() -> None:
    stall = Stall(started=0.0, seconds=1.0, frames=(OWN,))
    assert kinds(rows(stalls=(stall,))) == []
    assert kinds(rows(stalls=(stall,), loop=LoopTime(computing=1.0, starved=9.0))) == ["cpu"]
    assert scaling.judge(rows(), bare_rate=64.0).kind == "slower"
    assert scaling.judge(rows(loop=LoopTime(starved=9.0)), bare_rate=64.0).kind == "undecided"


def test_without_any_run_nothing_is_decided() -> None:
    empty = Rows((), (), (), rows().data)
    assert scaling.judge(empty, bare_rate=None).kind == "undecided"


def test_spans() -> None:
    assert stage3_rows.union([(0, 2), (1, 3), (5, 6)]) == 4
    assert stage3_rows.union([]) == 0
    assert stage3_rows.at_once([(0, 2), (1, 3), (2, 4)], 4.0) == (2, 1.5)
    assert stage3_rows.percentiles(map(float, range(1, 101))) == {"p50": 50, "p95": 95, "p99": 99, "max": 100}
    assert stage3_rows.percentiles([]) == {}


def test_nobody_is_faster_than_the_same_calls_alone() -> None:
    verdict = scaling.judge(rows(), bare_rate=0.25)
    assert verdict.kind == "undecided"
    assert verdict.ratio == pytest.approx(25.6)
    assert "the server was another" in verdict.reason


def test_in_a_moment_there_is_nothing_to_compare() -> None:
    given = rows()
    given = dataclasses.replace(given, data=given.data.model_copy(update={"wall": 0.5}))
    verdict = scaling.judge(given, bare_rate=1.0)
    assert (verdict.kind, verdict.ratio) == ("scales", None)


def test_a_bare_client_whose_time_was_up_is_nothing_to_compare_with() -> None:
    given = rows()
    cut = given.calls[0].model_copy(update={"status": None, "failure": "CancelledError()"})
    given = dataclasses.replace(given, bare=(*given.calls[1:], cut))
    for rate in (6.4, 64.0):
        verdict = scaling.judge(given, bare_rate=rate)
        assert verdict.kind == "undecided"
        assert "1 of its 64 calls" in verdict.reason
