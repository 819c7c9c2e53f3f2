"""How a process ended."""

from __future__ import annotations

import signal

import pytest

from harness.processes.exits import from_wait_status, of_zombie, signal_name
from harness.processes.stat import Stat


@pytest.mark.parametrize(("status", "code"), [(0, 0), (256, 1), (7 << 8, 7), (255 << 8, 255)])
def test_an_exit_code(status: int, code: int) -> None:
    ending = from_wait_status(status, "wait")
    assert (ending.code, ending.signal, ending.status, ending.core_dumped) == (code, None, code, False)


@pytest.mark.parametrize(("status", "number", "core"), [(9, 9, False), (11 | 0x80, 11, True), (15, 15, False)])
def test_a_deadly_signal(status: int, number: int, core: bool) -> None:
    ending = from_wait_status(status, "pidfd")
    assert (ending.code, ending.signal, ending.status, ending.core_dumped) == (None, number, 128 + number, core)


def test_signals_have_names() -> None:
    assert signal_name(9) == "SIGKILL"
    assert signal_name(signal.SIGRTMIN + 3) == f"signal {signal.SIGRTMIN + 3}"


def test_one_that_lives_has_no_ending() -> None:
    assert of_zombie(Stat(1, "x", "S", 0, 1, 1, 1, 0, 0.0, True, 0)) is None


def test_a_zero_that_we_may_not_read_is_not_taken_for_success() -> None:
    # There is no such process, so nobody may look into it: its 0 means nothing, any other status can't be made up.
    assert of_zombie(Stat(2**22 + 1, "x", "Z", 0, 1, 1, 1, 0, 0.0, True, 0)) is None
    ending = of_zombie(Stat(2**22 + 1, "x", "Z", 0, 1, 1, 1, 0, 0.0, True, 7 << 8))
    assert ending is not None
    assert ending.code == 7
