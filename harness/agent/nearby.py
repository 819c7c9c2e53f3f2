"""An agent and its samples in a folder of the user's, found by reading; nothing of it is run."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator
from pathlib import Path

from harness.agent.source import agent_classes

_DEPTH = 3
_MOST_FILES = 2000
_LARGEST = 1 << 20  # bytes of a source that is read
# Beside what begins with a dot: none of it is written by whoever asks.
_NOT_THEIRS = frozenset({"node_modules", "venv", "env", "site-packages", "__pycache__", "build", "dist", "runs"})


def agent_in(folder: Path) -> str:
    """``path/file.py:Class`` of the first agent, those nearest to the folder first; "" where none is seen."""
    for path in _files(folder, ".py"):
        try:
            if path.stat().st_size > _LARGEST:
                continue
            names = agent_classes(ast.parse(path.read_bytes()))
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if names and not path.name.startswith("test_"):
            return f"{path.relative_to(folder).as_posix()}:{names[0]}"
    return ""


def samples_in(folder: Path) -> str:
    """The first file of JSON objects, a line each; "" where there is none."""
    for path in _files(folder, ".jsonl"):
        try:
            with path.open(encoding="utf-8") as file:
                if isinstance(json.loads(file.readline(_LARGEST)), dict):
                    return path.relative_to(folder).as_posix()
        except (OSError, ValueError, RecursionError):
            continue
    return ""


def _files(folder: Path, ending: str) -> Iterator[Path]:
    """Files with an ending, those nearest to the folder first, each folder's by name."""
    level, left = [folder], _MOST_FILES
    for _ in range(_DEPTH):
        deeper: list[Path] = []
        for place in level:
            try:
                entries = sorted(os.scandir(place), key=lambda entry: entry.name)
            except OSError:
                continue
            for entry in entries:
                if entry.name.startswith(".") or entry.name in _NOT_THEIRS or left <= 0:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    deeper.append(Path(entry.path))
                elif entry.name.endswith(ending) and entry.is_file():
                    left -= 1
                    yield Path(entry.path)
        level = deeper
