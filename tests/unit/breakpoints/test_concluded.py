"""What `make trace` says at its end: the nearest lines, a file's end, and who keeps what from being started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.breakpoints import tracing
from harness.breakpoints.model import Paused, Worker
from harness.breakpoints.trace import Request, Result
from harness.errors import NothingTraced

ONE, OTHER = Worker("10.0.0.1", 7), Worker("10.0.0.1", 8)


def told(file: str, near: list[int]) -> dict[str, Any]:
    return {"files": [file], "functions": [], "running": 0, "near": near}


def test_the_lines_that_are_nearest_of_all_processes(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text("\n" * 32)
    result = Result(armed=[(ONE, told(str(file), [13, 15, 16])), (OTHER, told(str(file), [28, 30, 32]))])
    with pytest.raises(NothingTraced) as caught:
        tracing._conclude(Request("job.py", 40), result)
    assert caught.value.what == f"{file} has no code at line 40, and ends at line 32; nearest: 28, 30, 32."
    assert caught.value.mend == "make trace AT=job.py:32"


def test_a_line_within_the_file_doesnt_speak_of_its_end(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text("\n" * 32)
    result = Result(armed=[(ONE, told(str(file), [13, 15, 16]))])
    with pytest.raises(NothingTraced, match=r"no code at line 14; nearest: 13, 15, 16\."):
        tracing._conclude(Request("job.py", 14), result)


def late() -> Result:
    return Result(armed=[(ONE, {"files": ["job.py"], "functions": ["f"], "running": 0})], timed_out=True)


def paused(number: int, **more: Any) -> Paused:
    return Paused(number, Worker("10.0.0.1", 100 + number), file="/w/ray_break.py", line=7, **more)


def test_who_stands_at_a_breakpoint_is_named_where_no_hit_came(capsys: pytest.CaptureFixture[str]) -> None:
    assert tracing._conclude(Request("job.py", 3), late(), lambda: [paused(1), paused(2)]) == 1
    said = " ".join("".join(capsys.readouterr()).split())
    assert "2 processes stand at a breakpoint (ray_break.py:7) and keep their CPUs" in said
    assert "make breakpoints" in said


def test_nobody_is_accused_who_only_has_a_debugger(capsys: pytest.CaptureFixture[str]) -> None:
    for lines in ([], [paused(1, state="attached")]):
        assert tracing._conclude(Request("job.py", 3), late(), lambda lines=lines: lines) == 1  # type: ignore[misc]
    assert "breakpoint" not in "".join(capsys.readouterr())
