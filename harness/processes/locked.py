"""A Python with the packages of a lock; made once, in the clone's ``.drydock/``."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from harness.errors import LibraryMissing
from harness.places import home

# A local version is nowhere but in its project's own index.
_CPU_BUILD = (
    "The CPU build of torch isn't in the common index: pip's own configuration (extra-index-url, or find-links to a "
    "folder of wheels) has to name a place that has it."
)


def locked(*names: str, variable: str, tell: Callable[[str], None] | None = None) -> str:
    """An interpreter with what each ``docker/locks/NAME.txt`` holds; its folder's name changes with the locks.

    Args:
        variable: the setting that names another interpreter, for the error.
        tell: is told where something has to be installed first, which takes minutes.

    Raises:
        LibraryMissing: there is no such lock here, or what it holds can't be had.
    """
    name = "-".join(names)
    locks = [home() / f"docker/locks/{each}.txt" for each in names]
    if not all(lock.is_file() for lock in locks):
        raise LibraryMissing(
            f"{name} isn't installed, and {home()} has no lock to install it from.",
            consequence="The program can't be started.",
            mend=f"python -m pip install {' '.join(names)}, or {variable}=PYTHON that has it",
        )
    content = b"".join(lock.read_bytes() for lock in locks)
    stamp = hashlib.sha256(content + sys.version.encode()).hexdigest()[:12]
    folder = home() / ".drydock/tests" / f"{name}-{stamp}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (folder / "whole").exists():
            if tell is not None:
                tell(f"installing {', '.join(f'docker/locks/{each}.txt' for each in names)} into {folder}, once")
            with _removed_if_cut_off(folder):
                _make(folder, locks, variable)
    return str(folder / "bin/python")


@contextlib.contextmanager
def _removed_if_cut_off(folder: Path) -> Iterator[None]:
    """Nothing half made stays, also after Ctrl-C."""
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _make(folder: Path, locks: Sequence[Path], variable: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install", "--quiet", "--no-compile",
         # A lock is whole, and some leave out on purpose what a package would pull in.
         "--no-deps", "--require-hashes", *(f"--requirement={lock}" for lock in locks)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        what = ", ".join(lock.name for lock in locks)
        raise LibraryMissing(
            f"What {what} holds can't be installed here: {done.stderr.strip()[-300:]}",
            consequence=_CPU_BUILD if "+cpu" in done.stderr else "The program can't be started.",
            mend=f"{variable}=PYTHON   # an interpreter that has it",
        )
    (folder / "whole").touch()
