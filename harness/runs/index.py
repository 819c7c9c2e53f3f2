"""The list of all runs: as rows, and as the page ``runs/index.html``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.errors import NoSuchRun
from harness.places import write_whole
from harness.runs.folder import RESULT, Listed, listed

INDEX = "index.html"
_OUTCOMES = ("ok", "failed", "hung", "unknown", "unfinished")
PAGE = "report.html"
_STAMP = re.compile(r"(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)-")


@dataclass(frozen=True)
class Row:
    """One run.

    Args:
        name: its folder's name.
        when: as people write it; empty where the name doesn't tell.
        outcome: ``ok``, ``failed``, ``unfinished``; of a hang dump ``hung`` or ``unknown``.
        about: what it was about, in a few words.
        page: its page's name in the folder; empty where it has none.
    """

    name: str
    when: str
    verb: str
    outcome: str
    about: str
    page: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def rows(root: Path) -> list[Row]:
    """All runs, the newest first."""
    # A recording may lie among them; it is no run, and its name has no time.
    return [_row(run) for run in listed(root) if _STAMP.match(run.path.name)]


def write_page(root: Path) -> Path | None:
    """Write the list as a page; None where it can't be written, which is no reason to fail."""
    # Here, for few of those who list runs want a page.
    from harness.runs.html.page import render

    all_rows = rows(root)
    outcomes = [(name, sum(row.outcome == name for row in all_rows)) for name in _OUTCOMES]
    html = render("index.html.j2", root, rows=all_rows, outcomes=[pair for pair in outcomes if pair[1]])
    if not root.is_dir():
        return None
    try:
        # Names of files can hold what UTF-8 can't.
        write_whole(root / INDEX, html.encode("utf-8", "backslashreplace").decode())
    except OSError:
        return None
    return root / INDEX


def find(root: Path, name: str) -> Path:
    """A run's folder by its path, its name, or ``latest``.

    Raises:
        NoSuchRun: there is none, or it has no result.
    """
    given = Path(name).expanduser()
    for candidate in (given, root / name, root / given.name):
        if (candidate / RESULT).is_file():
            return candidate.resolve()
    some = [row.name for row in rows(root)[:4] if row.outcome != "unfinished"]
    known = f"Among the runs in {root}: {', '.join(some)}." if some else f"There is no finished run in {root}."
    raise NoSuchRun(f"{name} is no finished run", consequence=known, mend="make runs   # lists all of them")


def before(root: Path, folder: Path) -> Path:
    """The newest finished run of the same verb before a run.

    Raises:
        NoSuchRun: there is none.
    """
    found = [row for row in rows(root) if row.outcome != "unfinished"]
    names = [row.name for row in found]
    place = names.index(folder.name) if folder.name in names else len(names)
    older = [row.name for row in found[place + 1 :] if row.verb == found[place].verb]
    if not older:
        raise NoSuchRun(
            f"there is no finished run like {folder.name} before it",
            consequence="It would be held against itself.",
            mend="make runs   # lists all of them",
        )
    return (root / older[0]).resolve()


def _row(run: Listed) -> Row:
    stamp = _STAMP.match(run.path.name)
    when = "{}-{}-{} {}:{}:{}".format(*stamp.groups()) if stamp else ""
    page = PAGE if (run.path / PAGE).is_file() else ""
    return Row(run.path.name, when, run.verb, run.outcome, _about(run.result), page)


def _about(result: Mapping[str, Any]) -> str:
    parts: list[str] = []
    asked = result.get("asked")
    if isinstance(asked, dict):
        parts += [str(asked[key]) for key in ("agent", "model") if asked.get(key)]
    counts = result.get("counts")
    if isinstance(counts, dict):
        parts += [f"{many} {status}" for status, many in counts.items() if many and status in ("fail", "warn")]
    for key in ("command", "verdict", "error"):
        if isinstance(result.get(key), str):
            parts.append(result[key][:120])
    return ", ".join(parts)[:300]
