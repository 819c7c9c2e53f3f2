"""A path on this machine and the same file inside the containers."""

from __future__ import annotations

from pathlib import Path

from harness.places import home
from harness.settings import Settings

IN_CONTAINER = "/workspace"
RUNS_IN_CONTAINER = "/runs"


def into_container(settings: Settings, value: str) -> str:
    """Turn a path in the workspace or among the runs into what it is in ``dev``; anything else stays as it was.

    ``file.py:Class`` keeps its class. A relative path needs no change: commands start in the workspace there.
    """
    if not value.startswith("/"):
        return value
    for outside, inside in ((settings.workspace, IN_CONTAINER), (settings.runs_dir, RUNS_IN_CONTAINER)):
        if value == str(outside) or value.startswith(f"{outside}/"):
            return inside + value[len(str(outside)) :]
    return value


def relative_to_clone(path: Path) -> str:
    """A path as people type it who stand in the clone, as they do for make."""
    try:
        return str(path.relative_to(home()))
    except ValueError:
        return str(path)
