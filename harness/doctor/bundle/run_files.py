"""Files of the last runs. Agents write there, too: no link is followed, and only plain files are read."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from harness.doctor.bundle.choosing import RUNS, Candidate

# A folder with more files than any run of ours has isn't walked to its end.
MOST_FILES = 2000
_NAME = re.compile(r"\d{8}-\d{6}-[a-z0-9-]+")


def newest(root: Path, count: int = RUNS) -> list[str]:
    """The names of the newest runs' folders; by their names, which begin with the time."""
    try:
        entries = [entry for entry in os.scandir(root) if _NAME.fullmatch(entry.name)]
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(names, reverse=True)[:count]


def candidates(root: Path, runs: list[str]) -> list[Candidate]:
    """All plain files of these runs, by path within ``root``."""
    found: list[Candidate] = []
    for run in runs:
        for relative, folder, name in _walk(root, run):
            try:
                state = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(state.st_mode):
                found.append(Candidate(f"{relative}/{name}", state.st_size))
            if len(found) >= MOST_FILES:
                return sorted(found, key=lambda one: one.name)
    return sorted(found, key=lambda one: (runs.index(one.name.partition("/")[0]), one.name))


def read(root: Path, name: str, most: int) -> bytes | None:
    """The end of a file, at most so many bytes; None where it isn't a plain file any more, or can't be read."""
    parts = name.split("/")
    if ".." in parts:
        return None
    folder = None
    try:
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        # Without O_NONBLOCK a named pipe would hold us for ever.
        with os.fdopen(os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder), "rb") as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                return None
            file.seek(max(0, state.st_size - most))
            return file.read(most)
    except OSError:
        return None
    finally:
        if folder is not None:
            os.close(folder)


def _walk(root: Path, run: str) -> Iterator[tuple[str, int, str]]:
    """Each file's folder within ``root``, that folder opened, and the file's name."""
    try:
        start = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        for place, _, names, folder in os.fwalk(run, dir_fd=start, follow_symlinks=False):
            for name in sorted(names):
                yield place, folder, name
    finally:
        os.close(start)
