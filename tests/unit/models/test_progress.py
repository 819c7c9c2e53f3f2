"""Downloads say how far they are: by a moving line, and by plain lines where nothing can move."""

from __future__ import annotations

import pytest

from harness.models.progress import Meter, readable


def test_sizes_are_for_people() -> None:
    assert [readable(size) for size in (0, 999, 98_362_432, 1_520_000_000)] == [
        "0 bytes",
        "999 bytes",
        "98.4 MB",
        "1.52 GB",
    ]


def test_a_moving_line_tells_share_and_size() -> None:
    lines: list[str] = []
    meter = Meter(lines.append)
    meter.start("weights", 2_000_000, done=1_000_000)
    assert lines[-1].startswith("weights: 50 % of 2.0 MB")


def test_without_a_terminal_lines_come_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    meter = Meter(plain_every=0)
    meter.start("weights", 1000)
    meter.add(500)
    printed = capsys.readouterr().out
    assert "downloading weights: 1.0 kB" in printed
    assert "weights: 50 % of 1.0 kB" in printed


def test_without_a_terminal_a_fast_download_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    meter = Meter(plain_every=60)
    meter.start("weights", 1000)
    for _ in range(10):
        meter.add(100)
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_bytes_thrown_away_are_taken_back(capsys: pytest.CaptureFixture[str]) -> None:
    meter = Meter(plain_every=0)
    meter.start("weights", 1000, done=800)
    assert "weights: 80 %" in capsys.readouterr().out
    meter.add(-800)
    assert "weights: 0 %" in capsys.readouterr().out
