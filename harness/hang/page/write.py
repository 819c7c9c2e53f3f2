"""Puts what was decided of somebody's stacks into a folder of its own: the page, and the verdict as JSON."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.hang.folder import MANIFEST
from harness.hang.page.build import NAME
from harness.runs import Redactor, RunFolder
from harness.runs.environment import of_this_process

# A row a process; the dump itself has all of them.
_MOST_ROWS = 2000


def now() -> str:
    """The time of day as people write it."""
    return datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S")


def environment_of(path: str) -> dict[str, Any]:
    """What the manifest of a dump's folder says of its environment; nothing where there is none."""
    try:
        content = json.loads((Path(path) / MANIFEST).read_text(encoding="utf-8"))
        found = content.get("environment")
    except (OSError, ValueError, AttributeError):
        return {}
    return dict(found) if isinstance(found, Mapping) else {}


def in_words(verdict: Mapping[str, Any]) -> str:
    """A verdict for a list of many: what, and who."""
    who = ", ".join(verdict["laggards"][:4])
    cause = f" ({verdict['cause']})" if verdict["cause"] not in ("none", "unknown") else ""
    return f"{verdict['state']}: {verdict['title']}{cause}{f'; {who}' if who else ''}"


def _brief(verdict: Mapping[str, Any]) -> Mapping[str, Any]:
    """The verdict without the rows of processes about which there is nothing to say, where there are very many."""
    rows = verdict["processes"]
    if len(rows) <= _MOST_ROWS:
        return verdict
    named = set(verdict["laggards"])
    return {**verdict, "processes": [row for row in rows if row["note"] or row["id"] in named]}


def keep_diagnosis(root: Path, path: str, verdict: Mapping[str, Any], page: str, redactor: Redactor) -> Path:
    """Write ``runs/<time>-diagnose/``; where that fails, nothing half-written stays.

    Args:
        path: where the stacks lie.

    Raises:
        RunsNotWritable: the folder can't be made.
        NoSpace: the disk is full.
    """
    folder = RunFolder.create(root, "diagnose", redactor)
    try:
        folder.write_json("verdict.json", _brief(verdict))
        folder.write_text(NAME, page)
        result: dict[str, Any] = {
            "verb": "diagnose",
            "exit_code": int(verdict["state"] == "hung"),
            "cause": verdict["cause"],
        }
        result |= {"state": verdict["state"], "verdict": in_words(verdict)}
        folder.finish({**result, "dump": path}, fingerprint=of_this_process)
    except BaseException:
        folder.discard()
        raise
    return folder.path
