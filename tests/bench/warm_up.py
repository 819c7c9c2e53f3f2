"""Warm `up` (nothing to change) against what Docker Compose itself takes to find that nothing has to be changed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from harness.docker_engine import clean_environment
from tests.bench.timing import Command, in_turn
from tests.support.harness import CLONE, HARNESS, Stack, free_port

RATIO, SECONDS = 1.3, 3.0


def run(runs: int = 7) -> bool:
    """Measure and print; returns whether the goals are met."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"PORT": str(free_port()), "DASHBOARD_PORT": str(free_port())}
        stack = Stack("drydock-bench", Path(folder), settings)
        try:
            stack.run("up").ok()
            env_file = CLONE / ".drydock" / stack.project / "compose.env"
            compose = ["docker", "compose", "-p", stack.project, "--env-file", str(env_file), "-f", "compose.yaml"]
            ours, theirs, ratio = in_turn(
                Command("harness up", [str(HARNESS), "up"], stack.environment(), CLONE),
                Command("docker compose up --wait", [*compose, "up", "--wait"], clean_environment(os.environ), CLONE),
                runs,
            )
        finally:
            stack.run("down").ok()
    met = ratio <= RATIO and ours.median < SECONDS
    verdict = "met" if met else "MISSED"
    print(f"warm up\n  {ours}\n  {theirs}")
    print(f"  ratio {ratio:.2f} (goal: ≤ {RATIO} and < {SECONDS:.0f} s): {verdict}")
    return met
