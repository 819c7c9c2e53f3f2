"""Kills for lack of memory."""

from __future__ import annotations

import pytest

from harness.processes.memory import parse_kills


def test_the_unified_hierarchys_file() -> None:
    assert parse_kills("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n", "oom_kill") == 2


def test_the_first_hierarchys_file() -> None:
    assert parse_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n", "oom_kill") == 5


def test_a_kernel_that_does_not_count_is_no_zero() -> None:
    with pytest.raises(ValueError, match="oom_kill"):
        parse_kills("oom_kill_disable 0\nunder_oom 0\n", "oom_kill")
