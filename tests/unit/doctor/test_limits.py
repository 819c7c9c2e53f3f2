"""What the kernel allows, want of memory, the clock."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from harness.doctor.topics.machine_limits import (
    Clock,
    Limits,
    Pressure,
    decide_clock,
    decide_limits,
    decide_pressure,
    decide_tracing,
    engine_time,
    may_trace,
)
from harness.processes.crowding import patience_of

NOW = datetime.datetime(2026, 11, 30, 12, 0, tzinfo=datetime.timezone.utc)
GOOD = Limits(
    files=65536,
    files_at_most=65536,
    memlock=None,
    infiniband=False,
    processes_left=30_000,
    mappings=65530,
    overcommit=0,
)


@pytest.mark.parametrize(
    ("scope", "privileged", "sign"),
    [
        (None, False, "ok"),
        (0, False, "ok"),
        (1, False, "warn"),
        (1, True, "ok"),
        (2, False, "warn"),
        (2, True, "ok"),
        (3, True, "bad"),
    ],
)
def test_looking_into_processes(scope: int | None, privileged: bool, sign: str) -> None:
    assert [finding.sign for finding in decide_tracing(scope, privileged=privileged)] == [sign]


def test_the_capability_is_read_from_the_process() -> None:
    assert may_trace("Name:\tx\nCapEff:\t0000000000080000\n", 1000)
    assert not may_trace("CapEff:\t0000000000040000\n", 0)
    assert may_trace("", 0)
    assert not may_trace("", 1000)


def test_good_limits_are_fine() -> None:
    assert [finding.sign for finding in decide_limits(GOOD)] == ["ok"]
    assert [finding.sign for finding in decide_limits(replace(GOOD, files=None, mappings=None))] == ["ok"]


@pytest.mark.parametrize(
    ("limits", "sign", "word"),
    [
        (replace(GOOD, files=1024), "warn", "ulimit -n 65536"),
        (replace(GOOD, files=1024, files_at_most=1024), "warn", "limits.conf"),
        (replace(GOOD, processes_left=300), "warn", "pids"),
        (replace(GOOD, processes_left=10), "bad", "pids"),
        (replace(GOOD, infiniband=True, memlock=65536), "bad", "ulimit -l"),
        (replace(GOOD, mappings=1000), "warn", "max_map_count"),
        (replace(GOOD, overcommit=2), "warn", "overcommit"),
    ],
)
def test_limits_that_are_too_small(limits: Limits, sign: str, word: str) -> None:
    (finding,) = decide_limits(limits)
    assert finding.sign == sign
    assert word in finding.mend


def test_locked_memory_matters_with_infiniband_only() -> None:
    assert decide_limits(replace(GOOD, memlock=65536))[0].sign == "ok"


@pytest.mark.parametrize(
    ("pressure", "signs"),
    [
        (Pressure(0.0, 0), ["ok"]),
        (Pressure(None, 0), ["ok"]),
        (Pressure(35.0, 0), ["bad"]),
        (Pressure(0.0, 3), ["warn"]),
        (Pressure(35.0, 3), ["bad", "warn"]),
    ],
)
def test_want_of_memory(pressure: Pressure, signs: list[str]) -> None:
    assert [finding.sign for finding in decide_pressure(pressure)] == signs


@pytest.mark.parametrize(
    ("clock", "signs"),
    [
        (Clock(NOW, True, NOW), ["ok"]),
        (Clock(NOW), ["ok"]),
        (Clock(NOW.replace(year=1970)), ["bad"]),
        (Clock(NOW, True, NOW - datetime.timedelta(hours=2)), ["bad"]),
        (Clock(NOW, True, NOW - datetime.timedelta(seconds=1)), ["ok"]),
        (Clock(NOW, False), ["warn"]),
    ],
)
def test_the_clock(clock: Clock, signs: list[str]) -> None:
    assert [finding.sign for finding in decide_clock(clock, in_container=False)] == signs


def test_in_a_container_the_clock_is_somebody_elses_to_keep() -> None:
    assert decide_clock(Clock(NOW, False), in_container=True)[0].sign == "note"


def test_the_engines_time_is_read() -> None:
    assert engine_time("2026-11-30T12:00:00.123456789Z") == NOW.replace(microsecond=123456)
    assert engine_time("2026-11-30T13:00:00+01:00") == NOW
    assert engine_time("") is None


@pytest.mark.parametrize(
    ("loadavg", "cores", "factor"),
    [("0.50 1 1 1/200 9", 2, 1), ("0 0 0 12/200 9", 2, 3), ("52.25 9 9 1/9 9", 2, 4), ("", 2, 1)],
)
def test_a_busy_machine_gets_more_time(loadavg: str, cores: int, factor: float) -> None:
    assert patience_of(loadavg, cores) == factor
