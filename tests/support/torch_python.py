"""An interpreter with torch, for the programs of the hang scenarios; made once from docker/locks/torch.txt.

It lies in ``.drydock/tests/``, under a name that changes with the lock. ``DRYDOCK_TORCH_PYTHON`` names another.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.harness import CLONE

LOCK = CLONE / "docker/locks/torch.txt"


def torch_python() -> str:
    """The interpreter; the test is skipped where torch can't be had."""
    if named := os.environ.get("DRYDOCK_TORCH_PYTHON"):
        return named
    stamp = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = CLONE / ".drydock/tests" / f"torch-{stamp}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "torch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "whole").exists():
            _make(folder)
    return str(folder / "bin/python")


def _make(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install", "--quiet", "--no-compile",
         "--require-hashes", "-r", str(LOCK)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"torch of docker/locks/torch.txt can't be installed here: {done.stderr.strip()[-300:]}")
    (folder / "whole").touch()
