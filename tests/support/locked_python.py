"""An interpreter with the packages of one of our locks, for what can't share the clone's own; made once.

It lies in ``.drydock/tests/``, under a name that changes with the lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.harness import CLONE


def locked_python(name: str) -> Path:
    """The interpreter with the packages of ``docker/locks/NAME.txt``; the test is skipped where they can't be had."""
    lock_file = CLONE / "docker/locks" / f"{name}.txt"
    stamp = hashlib.sha256(lock_file.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = CLONE / ".drydock/tests" / f"{name}-{stamp}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "whole").exists():
            _make(folder, lock_file)
    return folder / "bin/python"


def _make(folder: Path, lock_file: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install", "--quiet", "--no-compile",
         "--no-deps", "--require-hashes", "-r", str(lock_file)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"{lock_file.name} can't be installed here: {done.stderr.strip()[-300:]}")
    (folder / "whole").touch()
