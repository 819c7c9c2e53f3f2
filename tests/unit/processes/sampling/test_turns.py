"""When stacks that nobody stopped a process for can be believed, and when those of a moment ago still hold."""

from __future__ import annotations

import os

import pytest

from harness.processes.sampling import turns
from harness.processes.sampling.turns import Turns

MAIN, OTHER = 10, 11
BEFORE = {MAIN: Turns("S", 5, 1_000_000), OTHER: Turns("S", 900, 9_000_000)}
SECOND = 1_000_000_000


def after(**changes: tuple[str, int, int]) -> dict[int, Turns]:
    """``BEFORE``, with other numbers for ``main`` or ``other``."""
    numbers = {"main": MAIN, "other": OTHER}
    return BEFORE | {numbers[name]: Turns(*value) for name, value in changes.items()}


@pytest.mark.parametrize(
    ("now", "threads", "expected"),
    [
        (after(), {MAIN}, True),
        (after(other=("S", 950, 9_500_000)), {MAIN}, True),
        (after(other=("S", 950, 9_500_000)), {MAIN, OTHER}, False),
        (after(main=("S", 6, 1_000_000)), {MAIN}, False),
        (after(main=("R", 5, 1_000_000)), {MAIN}, False),
        (after(main=("T", 5, 1_000_000)), {MAIN}, False),
        ({OTHER: BEFORE[OTHER]}, {MAIN}, False),
        # Numbers of another PID namespace.
        (after(), {1}, True),
        (after(other=("S", 950, 9_500_000)), {1}, False),
    ],
)
def test_who_slept_all_the_while(now: dict[int, Turns], threads: set[int], expected: bool) -> None:
    assert turns.slept(BEFORE, now, frozenset(threads)) is expected


def test_a_kernel_that_does_not_count_proves_nothing() -> None:
    uncounted = {MAIN: Turns("S", 0, None)}
    assert not turns.slept(uncounted, uncounted, frozenset({MAIN}))
    assert not turns.unmoved(uncounted, uncounted, frozenset({MAIN}), 1.0)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (after(), True),
        # gloo's own thread polls; it never calls Python.
        (after(other=("S", 1000, 9_000_000 + SECOND // 1000)), True),
        # A library's thread that works may call Python, as autograd's do.
        (after(other=("S", 905, 9_000_000 + SECOND // 10)), False),
        (after(main=("S", 6, 1_000_100)), False),
        (after() | {12: Turns("S", 1, 1000)}, False),
        ({MAIN: BEFORE[MAIN]}, False),
    ],
)
def test_when_stacks_of_a_moment_ago_still_hold(now: dict[int, Turns], expected: bool) -> None:
    assert turns.unmoved(BEFORE, now, frozenset({MAIN}), 1.0) is expected


def test_the_threads_that_a_dump_shows() -> None:
    known = b'[{"os_thread_id": 10, "frames": []}, {"os_thread_id":11, "frames": []}]'
    assert turns.threads_in(known) == frozenset({10, 11})
    # py-spy can't tell them apart in a process that it didn't stop, before Python 3.11.
    assert turns.threads_in(known.replace(b"11", b"null")) is None
    assert turns.threads_in(b"[]") is None


def test_a_process_that_is_gone_has_no_threads() -> None:
    assert turns.of_process(2**22 - 7) == {}
    assert os.getpid() in turns.of_process(os.getpid())
