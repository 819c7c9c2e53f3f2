"""The table in ``examples/wrong/README.md``: which example is found by what, and as what."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "wrong"
MARK = "# WRONG"


@dataclass(frozen=True)
class Example:
    """One row.

    Args:
        name: ``file.py:Class`` or ``file.yaml``.
        by: ``lint``, ``stage 2`` …; ``configuration`` for a configuration.
        ids: what it is found as.
    """

    name: str
    by: str
    ids: tuple[str, ...]

    @property
    def path(self) -> Path:
        return FOLDER / self.name.partition(":")[0]

    @property
    def line(self) -> int | None:
        """The line that is wrong, where there is one."""
        marked = [n for n, text in enumerate(self.path.read_text().splitlines(), start=1) if MARK in text]
        assert len(marked) <= 1, self.name
        return marked[0] if marked else None

    def __str__(self) -> str:
        return self.name


def rows() -> list[Example]:
    """All rows of the tables."""
    found: list[Example] = []
    for line in (FOLDER / "README.md").read_text().splitlines():
        if not line.startswith("| `"):
            continue
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        ids = tuple(re.findall(r"`([a-z0-9.-]+)`", cells[-1]))
        found.append(Example(cells[0].strip("`"), cells[1] if len(cells) > 2 else "configuration", ids))
    return found


def by(what: str) -> list[Example]:
    """The rows of one kind."""
    return [row for row in rows() if row.by == what]
