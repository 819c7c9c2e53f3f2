"""Packages of npm that tests need, by a lock beside the test."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def installed(lock: Path, folder: Path) -> Path:
    """``node_modules`` with what the lock in one folder names, made in another; skips where there is no npm."""
    if shutil.which("npm") is None:
        pytest.skip("there is no npm on this machine")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(lock / name, folder / name)
    done = subprocess.run(["npm", "ci"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "node_modules"
