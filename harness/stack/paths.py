"""A path on this machine and the same file inside the containers."""

from __future__ import annotations

from pathlib import Path

from harness.settings import Settings, home

IN_CONTAINER = "/workspace"


def into_container(settings: Settings, value: str) -> str:
    """Turn a path at or below the workspace into what it is in ``dev``; anything else is returned as it was.

    ``file.py:Class`` keeps its class. A relative path needs no change: commands start in the workspace there.
    """
    workspace = settings.workspace
    if not value.startswith("/"):
        return value
    if value == str(workspace) or value.startswith(f"{workspace}/"):
        return IN_CONTAINER + value[len(str(workspace)) :]
    return value


def relative_to_clone(path: Path) -> str:
    """A path as people type it who stand in the clone, as they do for make."""
    try:
        return str(path.relative_to(home()))
    except ValueError:
        return str(path)
