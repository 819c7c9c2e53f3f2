"""A Python that has what a program needs; made once from a lock of the clone, in ``.drydock/``."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.errors import LibraryMissing
from harness.places import home

# Names an interpreter that has torch and ray, where one is there already.
VARIABLE = "DRYDOCK_TORCH_PYTHON"


def python_with(needs: Iterable[str]) -> str:
    """An interpreter that can import these packages; this one where it can.

    Raises:
        LibraryMissing: they aren't here and can't be installed.
    """
    wanted = set(needs)
    if all(importlib.util.find_spec(name) is not None for name in wanted):
        return sys.executable
    if named := os.environ.get(VARIABLE):
        return named
    return locked(*(["torch"] if wanted == {"torch"} else ["torch", "ray"]))


def locked(*names: str) -> str:
    """An interpreter with what each ``docker/locks/NAME.txt`` holds; its folder's name changes with the locks.

    Raises:
        LibraryMissing: there is no such lock here, or what it holds can't be had.
    """
    name = "-".join(names)
    locks = [home() / f"docker/locks/{each}.txt" for each in names]
    if not all(lock.is_file() for lock in locks):
        raise LibraryMissing(
            f"{name} isn't installed, and {home()} has no lock to install it from.",
            consequence="The program can't be started.",
            mend=f"python -m pip install {' '.join(names)}, or {VARIABLE}=PYTHON that has it",
        )
    content = b"".join(lock.read_bytes() for lock in locks)
    stamp = hashlib.sha256(content + sys.version.encode()).hexdigest()[:12]
    folder = home() / ".drydock/tests" / f"{name}-{stamp}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (folder / "whole").exists():
            _make(folder, locks)
    return str(folder / "bin/python")


def _make(folder: Path, locks: Sequence[Path]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install", "--quiet", "--no-compile",
         # A lock is whole, and some leave out on purpose what a package would pull in.
         "--no-deps", "--require-hashes", *(f"--requirement={lock}" for lock in locks)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        what = ", ".join(lock.name for lock in locks)
        raise LibraryMissing(
            f"What {what} holds can't be installed here: {done.stderr.strip()[-300:]}",
            consequence="The program can't be started.",
            mend=f"{VARIABLE}=PYTHON   # an interpreter that has it",
        )
    (folder / "whole").touch()
