"""What a workspace lays open: agents read and write all that is in it. Decides only."""

from __future__ import annotations

from pathlib import Path


def warning(workspace: Path, clone: Path, home: Path | None) -> str:
    """Why this folder is more than a project, for a person; "" where it is none the less.

    Args:
        clone: the folder of this Drydock.
        home: of this user, where one is known.
    """
    place = workspace.resolve()
    if home is not None and home.resolve().is_relative_to(place):
        what = "your home folder" if place == home.resolve() else f"{home}, your home folder,"
        return f"WORKSPACE={workspace}: agents can read and write {what} with keys and shell start-up files in it"
    if clone.resolve().is_relative_to(place):
        return (
            f"WORKSPACE={workspace} has this Drydock in it: agents can change the code that `make` runs on this machine"
        )
    return ""
