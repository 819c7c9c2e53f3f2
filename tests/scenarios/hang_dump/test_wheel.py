"""The wheel alone, in a bare virtual environment, far from any clone and without Docker's SDK."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.hanging import Job
from tests.support.harness import CLONE


@pytest.mark.slow
def test_the_wheel_alone_takes_a_dump(job: Job, tmp_path: Path) -> None:
    bare, dist, elsewhere = tmp_path / "bare", tmp_path / "dist", tmp_path / "elsewhere"
    elsewhere.mkdir()
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(dist)], cwd=CLONE, check=True)
    [wheel] = dist.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(bare)], check=True)
    subprocess.run([str(bare / "bin/python"), "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    # Not in the clone, whose folder of that name Python would take for a package.
    absent = subprocess.run([str(bare / "bin/python"), "-c", "import docker"], cwd=elsewhere, check=False)
    assert absent.returncode == 1
    job.start("plain").settle()
    outside = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}

    def harness(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(bare / "bin/harness"), *arguments],
            cwd=elsewhere, env={**outside, "GAP": "0", "RUNS": str(elsewhere / "runs")}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip

    for how in (("--pids", str(job.pids[0])), ("--match", f"{CLONE}.*programs.py plain")):
        done = harness("hang-dump", "--json", *how)
        assert done.returncode in (0, 1), done.stderr
        verdict = json.loads(done.stdout)
        assert job.pids[0] in [process["pid"] for process in verdict["processes"]]
        assert not any(step.startswith("make ") for step in verdict["next"])
        again = harness("diagnose", verdict["folder"], "--json")
        assert json.loads(again.stdout)["cause"] == verdict["cause"]
