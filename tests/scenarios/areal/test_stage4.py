"""Stage 4 with AReaL's real controller, workers and proxy: what is sound passes; recordings replay without either."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest

from tests.scenarios.areal.conftest import AGENTS, Stage4

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
Recorded = tuple[Stage4, dict[str, dict[str, Any]]]


def failed(found: dict[str, dict[str, Any]]) -> set[str]:
    return {id_ for id_, one in found.items() if one["status"] == "fail"}


def test_a_sound_agent_passes(recorded: Recorded) -> None:
    _, found = recorded
    assert failed(found) == set()
    assert found["areal.batch"]["facts"]["got"] == 4
    assert found["areal.round-trip"]["status"] == "pass"
    assert "8 as the agent returned them; mean 1.000" in found["areal.rewards"]["detail"]
    assert "areal.left" not in found


def test_what_stage_4_recorded_gives_the_same_rewards_without_server_and_areal(recorded: Recorded) -> None:
    stage4, _ = recorded
    done = stage4.run("--stage", "3", "--replay", "tape", "--agent", f"{AGENTS}:Sound", AREAL_PYTHON="")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 of 8 runs ended as recorded, with the same reward" in done.stdout
    one = stage4.run("--stage", "2", "--replay", "tape", "--run", "3", "--agent", f"{AGENTS}:Sound", AREAL_PYTHON="")
    assert one.returncode == 0, one.stdout + one.stderr
    assert "as recorded" in one.stdout


def test_a_recording_that_was_cut_off_is_told(recorded: Recorded) -> None:
    stage4, _ = recorded
    shutil.copytree(stage4.folder / "tape", stage4.folder / "cut")
    file = stage4.folder / "cut/run-00003.jsonl"
    content = file.read_bytes()
    os.truncate(file, len(content) - len(content.splitlines()[-1]) - 20)
    done = stage4.run("--stage", "2", "--replay", "cut", "--run", "3", "--agent", f"{AGENTS}:Sound")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "half-written" in done.stdout
    all_runs = stage4.run("--stage", "3", "--replay", "cut", "--agent", f"{AGENTS}:Sound")
    assert all_runs.returncode == 1, all_runs.stdout + all_runs.stderr
    assert "1 of 8 runs break off before their end" in all_runs.stdout
