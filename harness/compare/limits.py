"""Which of the projects' published limits the figures keep. Pure, but for reading the table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from harness.compare.figures import Figures
from harness.errors import BadSetting


@dataclass(frozen=True)
class Limit:
    """One published limit.

    Args:
        most, least: of the figure's value; one of them is None.
        absolute: whether its sign doesn't count.
        binding: whether it decides, or is only shown.
    """

    project: str
    figure: str
    source: str
    most: float | None = None
    least: float | None = None
    fine: float | None = None
    absolute: bool = False
    binding: bool = True

    def kept(self, figures: Figures) -> bool | None:
        """Whether it is kept; None where the figure isn't known."""
        value = getattr(figures, self.figure)
        if not math.isfinite(value):
            return None
        value = abs(value) if self.absolute else value
        return bool((self.most is None or value <= self.most) and (self.least is None or value >= self.least))

    @property
    def text(self) -> str:
        """The limit as people write it."""
        name = f"|{self.figure}|" if self.absolute else self.figure
        return f"{name} ≤ {self.most:g}" if self.most is not None else f"{name} ≥ {self.least:g}"


@dataclass(frozen=True)
class Held:
    """A limit against what was measured."""

    limit: Limit
    value: float
    kept: bool | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        value = self.value if math.isfinite(self.value) else None
        return {**asdict(self.limit), "limit": self.limit.text, "value": value, "kept": self.kept}


@cache
def table() -> dict[str, tuple[Limit, ...]]:
    """All limits by project."""
    read = yaml.safe_load((Path(__file__).parent / "limits.yaml").read_text("utf-8"))
    return {
        project: tuple(
            Limit(project=project, binding=name == "limits", **entry)
            for name in ("limits", "also")
            for entry in about.get(name) or ()
        )
        for project, about in read.items()
    }


def chosen(given: str) -> tuple[str, ...]:
    """The projects that ``LIMITS`` names; ``all`` is all of them.

    Raises:
        BadSetting: there is no such project.
    """
    wanted = [part.strip().lower() for part in given.split(",") if part.strip()]
    names = tuple(table()) if wanted == ["all"] else tuple(wanted)
    for name in names:
        if name not in table():
            raise BadSetting(
                f"LIMITS={given}: there are no limits of {name}", mend=f"LIMITS=all   # or of: {', '.join(table())}"
            )
    return names or ("verl",)


def hold(figures: Figures, projects: Sequence[str]) -> list[Held]:
    """The figures against the limits of some projects."""
    return [
        Held(limit, getattr(figures, limit.figure), limit.kept(figures))
        for project in projects
        for limit in table()[project]
    ]


def broken(held: Sequence[Held]) -> list[Held]:
    """Those that decide and aren't kept."""
    return [one for one in held if one.limit.binding and one.kept is False]
