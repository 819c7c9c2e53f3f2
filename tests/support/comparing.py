"""``harness compare`` as people run it, on a model of a few lines."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.harness import CLONE, HARNESS, Ended, wait_for
from tests.support.two_sides import fake_python, fake_weights


def begin(
    url: str, folder: Path, *more: str, python: Path | None = None, runs: Path | None = None
) -> subprocess.Popen[str]:
    """Start it against a server.

    Args:
        folder: for weights, interpreter and runs.
        more: further flags.
    """
    weights, program = fake_weights(folder / "weights"), python or fake_python(folder)
    called = [
        "compare", "--base-url", url, "--model", "two-sides", "--reference", str(weights),
        "--compare-python", str(program), "--hits", "10", "--max-tokens", "16", "--json", *more,
    ]  # fmt: skip
    environment = {**os.environ, "RUNS": str(runs or folder / "runs"), "NO_COLOR": "1"}
    return subprocess.Popen(
        [str(HARNESS), *called], env=environment, cwd=CLONE, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> Ended:
    """How it ends."""
    assert isinstance(process.args, list)
    try:
        out, said = process.communicate(timeout=600)
    finally:
        process.kill()
    return Ended(tuple(process.args[1:]), process.returncode, out, said, 0.0)


def compare(url: str, folder: Path, *more: str, python: Path | None = None, runs: Path | None = None) -> Ended:
    """Run it; arguments are those of ``begin``."""
    return ended(begin(url, folder, *more, python=python, runs=runs))


def wait_for_lines(runs: Path, many: int) -> None:
    """Until that many samples are kept."""

    def kept() -> int:
        return max((path.read_bytes().count(b"\n") for path in runs.glob(".compare-*/samples.jsonl")), default=0)

    wait_for(f"{many} samples", lambda: kept() >= many, 300)
