"""Which process numbers are new."""

from __future__ import annotations

from harness.processes.births import numbers_between


def test_nothing_was_born() -> None:
    assert numbers_between(500, 500, 32768) == []


def test_the_numbers_after_the_last_seen() -> None:
    assert numbers_between(500, 503, 32768) == [501, 502, 503]


def test_the_count_starts_anew_above_the_reserved_numbers() -> None:
    assert numbers_between(32765, 302, 32768) == [32766, 32767, 300, 301, 302]


def test_too_many_are_not_tried_one_by_one() -> None:
    assert numbers_between(500, 50_000, 4_194_304) is None
    assert numbers_between(4_000_000, 400, 4_194_304) is None
