"""What counts as getting on, and what somebody is woken up for; no process is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadSetting
from harness.hang.model import Dump, Frame, Process, Sample, Stack, Thread
from harness.hang.verdict import State, Verdict
from harness.hang.watch.alarm import is_hung
from harness.hang.watch.looks import Look, Looker
from harness.hang.watch.quiet import Quiet, seconds_of


def quiet_for(*looks: Look) -> list[float]:
    quiet = Quiet()
    return [quiet.take(look) for look in looks]


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400)])
def test_a_time(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-5m", "10 minutes", "m", "1d"])
def test_no_time(text: str) -> None:
    with pytest.raises(BadSetting, match="AFTER="):
        seconds_of(text)


def test_who_only_waits_is_quiet_and_who_computes_is_not() -> None:
    waits = [Look(at, cpu={1: at * 0.001}) for at in (0.0, 10.0, 20.0)]
    computes = [Look(at, cpu={1: at * 0.5}) for at in (0.0, 10.0, 20.0)]
    assert quiet_for(*waits) == [0, 10, 20]
    assert quiet_for(*computes) == [0, 0, 0]


def test_somebody_who_comes_or_goes_is_progress() -> None:
    assert quiet_for(Look(0, cpu={1: 1}), Look(10, cpu={1: 1, 2: 0}), Look(20, cpu={1: 1})) == [0, 0, 0]


def test_a_log_that_has_grown_once_decides_over_cpu() -> None:
    """A loop without end uses a core; its log is what stands still."""
    looks = [Look(at, cpu={1: at}, logs={"a": size}) for at, size in ((0, 1), (10, 2), (20, 2), (30, 2), (40, 3))]
    assert quiet_for(*looks) == [0, 0, 10, 20, 0]


def test_a_step_counter_decides_over_a_log() -> None:
    """A heartbeat in the log is no step."""
    looks = [
        Look(at, cpu={1: at}, logs={"a": at}, step=step) for at, step in ((0, ""), (10, "1"), (20, "1"), (30, "1"))
    ]
    assert quiet_for(*looks) == [0, 0, 10, 20]


def test_a_busy_gpu_is_progress_where_nothing_else_tells() -> None:
    assert quiet_for(Look(0, cpu={1: 1}, gpu=50), Look(10, cpu={1: 1}, gpu=50), Look(20, cpu={1: 1}, gpu=0)) == [
        0,
        0,
        10,
    ]


def test_the_step_is_read_from_new_lines_only(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("step 1\nstep 2\n")
    looker = Looker([str(log)], r"step (\d+)")
    assert looker.look([], 0).step == "step 2"
    with log.open("a") as file:
        file.write("heartbeat\n")
    assert looker.look([], 1).step == "step 2"
    log.write_text("step 1\n")  # begun anew
    assert looker.look([], 2).step == "step 1"


def test_a_file_of_tensorboard_is_a_step_counter(tmp_path: Path) -> None:
    events = tmp_path / "events.out.tfevents.1"
    events.write_bytes(b"a")
    looker = Looker([], str(tmp_path / "events.out.tfevents*"))
    before = looker.look([], 0).step
    assert looker.look([], 1).step == before
    events.write_bytes(b"ab")
    assert looker.look([], 2).step != before


def dumped(state: State, *lines: int, laggards: tuple[str, ...] = ("rank1",)) -> tuple[Dump, Verdict]:
    samples = [Sample((Thread("MainThread", Stack((Frame("work", "train.py", line),))),)) for line in lines]
    dump = Dump(processes=[Process(id="rank1", role="rank", rank=1, samples=samples)])
    return dump, Verdict(state, "straggler", "likely", ["straggler"], list(laggards))


def test_two_dumps_that_agree_wake_somebody() -> None:
    assert is_hung(dumped("hung", 7, 7), dumped("hung", 7, 7))


@pytest.mark.parametrize("state", ["slow", "idle", "done", "unknown"])
def test_one_hang_is_not_enough(state: State) -> None:
    assert not is_hung(dumped("hung", 7, 7), dumped(state, 7, 7))
    assert not is_hung(dumped(state, 7, 7), dumped("hung", 7, 7))


def test_who_is_named_and_gets_on_is_left_alone() -> None:
    assert not is_hung(dumped("hung", 7, 7), dumped("hung", 7, 8))
    assert not is_hung(dumped("hung", 7, 7), dumped("hung", 8, 8))


def test_a_loop_at_the_same_lines_through_both_dumps_wakes_somebody() -> None:
    first, second, later = dumped("slow", 7, 7), dumped("slow", 7, 7), dumped("slow", 7, 8)
    for _, verdict in (first, second, later):
        verdict.candidates = ["straggler", "python-loop"]
    assert is_hung(first, second)
    assert not is_hung(first, later)
    second[1].laggards = first[1].laggards = []
    assert not is_hung(first, second)


def test_with_a_step_counter_that_stands_nobody_is_left_alone_but_the_idle() -> None:
    assert is_hung(dumped("slow", 7, 8), dumped("unknown", 9, 9), counts_steps=True)
    assert not is_hung(dumped("idle", 7, 7), dumped("idle", 7, 7), counts_steps=True)
