"""Records of the build cache are told apart: ours, surely; anybody else's never."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.stack.images.ledger import CacheRecord, RanStep, Recorder, ours, read_steps, seconds
from harness.stack.images.solve_log import SolveLog, Step

RUN = "[2/4] RUN --mount=type=bind,source=build,target=/build     /build/pip-install /opt/venv"
EXEC = "mount / from exec /bin/sh -c /build/pip-install /opt/venv"


def record(name: str, description: str, created: float, parent: str = "") -> CacheRecord:
    return CacheRecord(name, (parent,) if parent else (), description, created, 1)


STEPS = [
    RanStep("[internal] load build definition from Dockerfile", 10.0, 10.1),
    RanStep("[internal] load build context", 10.2, 10.3),
    RanStep("[1/4] FROM docker.io/drydock/base:1", 10.2, 10.3),
    RanStep(RUN, 11.0, 20.0),
    RanStep("[3/4] COPY a /a", 21.0, 21.1),
]
OURS = [
    record("definition", "local source for dockerfile", 10.05),
    record("context", "local source for context", 10.25),
    record("layer", "from local ", 10.25),
    record("run", EXEC, 20.0, "layer"),
    record("copy", "fileop target", 21.05, "run"),
]


def test_all_of_ours_is_found() -> None:
    assert ours(OURS, STEPS) == ({"definition", "context", "layer", "run", "copy"}, set())


def test_what_was_there_before_or_came_later_is_not_ours() -> None:
    others = [
        record("old context", "local source for context", 5.0),
        record("old layer", "from local ", 5.0),
        record("late copy", "fileop target", 30.0),
        record("late run", EXEC, 100.0),
    ]
    assert ours([*OURS, *others], STEPS)[0] == {"definition", "context", "layer", "run", "copy"}


def test_a_command_of_somebody_else_at_the_same_time_is_not_ours() -> None:
    other = record("other run", "mount / from exec /bin/sh -c make", 15.0, "other layer")
    assert "other run" not in ours([*OURS, other], STEPS)[0]


def test_files_of_somebody_else_at_the_same_time_stay_and_ours_are_known_by_their_parent() -> None:
    other = record("other copy", "fileop target", 21.06, "other run")
    sure, doubtful = ours([*OURS, other], STEPS)
    assert "copy" in sure
    assert doubtful == {"other copy"}


def test_what_can_not_be_told_apart_is_left() -> None:
    other = record("other context", "local source for context", 10.26)
    sure, doubtful = ours([*OURS, other], STEPS)
    assert doubtful == {"context", "other context"}
    assert not doubtful & sure


def test_build_arguments_in_a_step_have_their_values() -> None:
    step = RanStep('[4/4] RUN --mount=type=secret,id=x     /node/make-environment "base"', 1.0, 2.0)
    assert ours([record("r", 'mount / from exec /bin/sh -c /node/make-environment "${GROUND}"', 2.1)], [step])[0] == {
        "r"
    }


def test_a_recorder_moves_times_to_when_a_step_was_first_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.stack.images.ledger.time.time", lambda: seconds("2026-01-01T00:00:10Z"))
    log = SolveLog()
    log.steps = {
        "a": Step("a", RUN, started="2026-01-01T00:00:08Z", completed="2026-01-01T00:00:09Z"),
        "b": Step(
            "b", "[3/4] COPY a /a", started="2026-01-01T00:00:09Z", completed="2026-01-01T00:00:09Z", cached=True
        ),
    }
    recorder = Recorder(tmp_path / "sub" / "1.json", "dev", ahead=0.5)
    recorder.update(log)
    (step,) = read_steps(tmp_path / "sub")
    assert step == RanStep(RUN, seconds("2026-01-01T00:00:10.5Z"), seconds("2026-01-01T00:00:11.5Z"))
    assert step.sort == "exec"


def test_a_journal_cut_short_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text(json.dumps({"kind": "dev"})[:9])
    assert list(read_steps(tmp_path)) == []


def test_times_of_the_engine_are_read_with_all_their_digits() -> None:
    assert seconds("1970-01-01T00:01:00.123456789Z") == pytest.approx(60.123456789)
    assert seconds("1970-01-01T00:01:00Z") == 60
