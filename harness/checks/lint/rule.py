"""What a rule is, and how what it finds becomes a finding."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness.checks.findings import Finding, Place

ID = "lint.{code}"


@dataclass(frozen=True)
class Hit:
    """One place where a rule applies.

    Args:
        detail: what is there.
        file, line, source: the place; line counts from 1.
        end_line: the last line of the statement, where a comment that ignores it may stand as well.
        function: in which function.
        status: another one than the rule's, where it can't be sure.
    """

    detail: str
    file: Path
    line: int
    end_line: int = 0
    function: str = ""
    source: str = ""
    status: Literal["fail", "warn"] | None = None

    @property
    def place(self) -> Place:
        """The place as reports show it."""
        return Place(file=str(self.file), line=self.line, function=self.function, source=self.source)


@dataclass(frozen=True)
class Rule:
    """One thing that can be wrong.

    Args:
        code: its name in comments and reports; never changes its meaning.
        title: what is looked at, in a few words.
        status: fail where training will go wrong, warn where it may.
        consequence: what follows.
        mend: what to do.
        find: looks for it; None for what only a run shows.
        seen_as: ids of findings on a run that are about the same; those take the line and this one is left out.
    """

    code: str
    title: str
    status: Literal["fail", "warn"]
    consequence: str
    mend: str
    find: Callable[[Any], Iterable[Hit]] | None = field(default=None, repr=False)
    seen_as: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The id of its findings."""
        return ID.format(code=self.code)

    def finding(self, detail: str, **changes: Any) -> Finding:
        """A finding of this rule."""
        fields: dict[str, Any] = {
            "id": self.id,
            "title": self.title,
            "status": self.status,
            "detail": detail,
            "consequence": self.consequence,
            "mend": self.mend,
        }
        return Finding(**{**fields, **{name: value for name, value in changes.items() if value is not None}})

    def of(self, hits: Iterable[Hit]) -> Finding | None:
        """One finding on all places of a rule, the first of them shown; None where there is none."""
        places = sorted(hits, key=lambda hit: (hit.status or self.status, str(hit.file), hit.line))
        if not places:
            return None
        first = places[0]
        more = [f"{hit.file.name}:{hit.line}" for hit in places[1:]]
        detail = first.detail
        if more:
            shown = ", ".join(more[:4]) + (f" and {len(more) - 4} more" if len(more) > 4 else "")
            detail += f"; also at {shown}"
        facts = {"code": self.code, "places": [{"file": str(hit.file), "line": hit.line} for hit in places]}
        return self.finding(detail, status=first.status, place=first.place, facts=facts)
