"""A line of source with its neighbours."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

_MOST = 4 * 1024 * 1024
_LONGEST = 240


@dataclass(frozen=True)
class Line:
    """One line; ``marked`` is the one that is meant."""

    number: int
    text: str
    marked: bool


def excerpt(file: str, line: int, around: int = 3) -> list[Line]:
    """The lines about one; empty where the file isn't there any more, or can't be read."""
    try:
        # A report may name anything; a pipe or a device in the file's place would never end.
        if not stat.S_ISREG(os.stat(file).st_mode) or os.stat(file).st_size > _MOST:
            return []
        lines = Path(file).read_text("utf-8", "replace").split("\n")
    except (OSError, ValueError):
        return []
    if not 1 <= line <= len(lines):
        return []
    first, last = max(line - around, 1), min(line + around, len(lines))
    return [Line(number, lines[number - 1].rstrip()[:_LONGEST], number == line) for number in range(first, last + 1)]
