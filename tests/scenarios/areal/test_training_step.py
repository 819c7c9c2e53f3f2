"""What stage 4 brought can be trained on: a step of AReaL's own PPO actor with it, on a CPU."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.areal.conftest import Stage4, areal_python

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

# AReaL's FSDP engine imports it, and nothing that rolls out does: it isn't in the lock.
NEEDS = ("peft==0.18.1", "accelerate==1.12.0")


@pytest.fixture
def packages(tmp_path: Path) -> str:
    """A folder with what a training needs beside what a rollout needs."""
    folder = tmp_path / "packages"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", areal_python(), "install", "--quiet", "--no-deps", "--target",
         str(folder), *NEEDS],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        pytest.skip(f"peft can't be had here: {done.stderr.strip()[-300:]}")
    return str(folder)


def test_a_step_of_areals_own_actor_learns_from_the_trajectories(
    recorded: tuple[Stage4, dict[str, Any]], packages: str
) -> None:
    stage4, _ = recorded
    done = subprocess.run(
        [areal_python(), str(Path(__file__).parent / "training_step.py"), str(stage4.folder / "model"),
         str(stage4.folder / "runs/latest/stage4/trajectories.jsonl")],
        env={**os.environ, "PYTHONPATH": packages, "TMPDIR": str(stage4.temporary)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["backend"] == "gloo"
    assert max(told["moved"].values()) > 0
    assert all(map(math.isfinite, told["moved"].values()))
    stats = told["stats"]
    assert stats["ppo_actor/update/update_successful"] == 1.0
    assert 0 < stats["ppo_actor/update/grad_norm"] < math.inf
    assert stats["ppo_actor/n_seqs"] == 8.0
    assert stats["ppo_actor/task_reward/avg"] == 1.0
