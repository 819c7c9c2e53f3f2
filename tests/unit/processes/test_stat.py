"""Reading /proc's lines about one process."""

from __future__ import annotations

import os

import pytest

from harness.processes.stat import TICKS_PER_SECOND, parse_command, parse_peak_memory, parse_stat, read_stat


def line(name: bytes, *, state: str = "S", ppid: int = 3, flags: int = 0, wait_status: int = 0) -> bytes:
    """A stat line as Linux 6.18 writes it, with values that tell the fields apart."""
    after = (
        f"{state} {ppid} 11 12 0 -1 {flags} 100 101 102 103 {3 * TICKS_PER_SECOND} {TICKS_PER_SECOND} 7 8 20 0 5 0 "
        f"987654 1000000 250 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 {wait_status}\n"
    )
    return b"42 (" + name + b") " + after.encode()


@pytest.mark.parametrize(
    "name",
    [
        b"python",
        b"tmux: server",
        b"a) S 1 (b",
        b"))((",
        b"two\nlines",
        b"",
        b"ray::IDLE",
        b" leading and trailing ",
    ],
)
def test_a_name_may_hold_anything(name: bytes) -> None:
    stat = parse_stat(line(name))
    assert (stat.pid, stat.name, stat.state, stat.ppid) == (42, name.decode(), "S", 3)


def test_bytes_that_are_no_text_stay_recognisable() -> None:
    assert parse_stat(line(b"caf\xe9")).name == "caf\\xe9"


def test_each_field_is_taken_from_its_place() -> None:
    stat = parse_stat(line(b"x", state="Z", ppid=3, wait_status=1792))
    assert (stat.group, stat.session, stat.threads, stat.start_ticks) == (11, 12, 5, 987654)
    assert stat.cpu_seconds == pytest.approx(4.0)
    assert stat.wait_status == 1792


@pytest.mark.parametrize(("flags", "executed"), [(0x40, False), (0x400040, False), (0x400000, True), (0, True)])
def test_a_process_that_only_forked_is_told_from_one_that_executed(flags: int, executed: bool) -> None:
    assert parse_stat(line(b"x", flags=flags)).has_exec_ed is executed


@pytest.mark.parametrize(("state", "zombie"), [("Z", True), ("X", True), ("S", False), ("T", False), ("D", False)])
def test_zombies_are_those_that_have_ended(state: str, zombie: bool) -> None:
    assert parse_stat(line(b"x", state=state)).is_zombie is zombie


@pytest.mark.parametrize("content", [b"", b"rubbish", b"42 (unfinished", b"42 (short) S 1 2 3", b") 42 ("])
def test_what_is_no_stat_line_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="stat"):
        parse_stat(content)


def test_our_own_line_is_read() -> None:
    stat = read_stat(os.getpid())
    assert stat is not None
    assert (stat.pid, stat.ppid, stat.group) == (os.getpid(), os.getppid(), os.getpgrp())


def test_a_process_that_does_not_exist_is_none() -> None:
    assert read_stat(2**22 + 1) is None


def test_arguments_are_split_at_nul_and_empty_ones_kept() -> None:
    assert parse_command(b"python\0-c\0\0print(1)\0") == ["python", "-c", "", "print(1)"]


def test_an_overwritten_title_loses_its_padding() -> None:
    assert parse_command(b"ray::Trainer.step\0\0\0\0\0\0") == ["ray::Trainer.step"]


def test_a_zombie_has_no_arguments() -> None:
    assert parse_command(b"") is None


def test_peak_memory_is_in_bytes() -> None:
    assert parse_peak_memory(b"Name:\tpython\nVmPeak:\t  900 kB\nVmHWM:\t   123 kB\nVmRSS:\t 100 kB\n") == 123 * 1024


def test_a_zombie_has_no_peak_memory() -> None:
    assert parse_peak_memory(b"Name:\tpython\nState:\tZ (zombie)\n") is None
