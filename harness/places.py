"""Where this process runs, and files that it keeps there; light imports only, for the quickest verbs need it."""

from __future__ import annotations

import os
from pathlib import Path

# How a command was typed that was handed on into a container, in its environment: JSON of names and texts.
TYPED = "DRYDOCK_TYPED"
# Folders of the containers, and what says in their environment where these are outside (compose.yaml).
_SHOWN = {"/workspace": "WORKSPACE_SHOWN", "/runs": "RUNS_SHOWN"}


def home() -> Path:
    """The clone this harness belongs to, where ``compose.yaml`` lies; else here; ``DRYDOCK_HOME`` wins."""
    if value := os.environ.get("DRYDOCK_HOME"):
        return Path(value)
    clone = Path(__file__).resolve().parent.parent
    return clone if (clone / "compose.yaml").is_file() else Path.cwd()


def runs_dir() -> Path:
    """Where results are kept; ``RUNS`` is set in the containers, where the clone isn't."""
    return Path(os.environ.get("RUNS") or home() / "runs")


def in_container() -> bool:
    """Whether this process runs in a container of ours, where a verb has nothing to hand on to."""
    return bool(os.environ.get("DRYDOCK_IN_CONTAINER"))


def shown(path: Path) -> str:
    """A path as whoever typed the command finds that file: in a container of ours, on the machine outside of it."""
    if TYPED in os.environ:
        for inside, name in _SHOWN.items():
            if path.is_relative_to(inside) and (outside := os.environ.get(name)):
                return str(Path(outside) / path.relative_to(inside))
    return str(path)


def write_whole(path: Path, text: str) -> None:
    """Write a file, and the folder that it lies in, so that it appears whole or not at all; nothing is left beside it.

    Raises:
        OSError: the disk is full, or the folder can't be written to; what was there before is still there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # Others may write into the folder too, as containers do into `runs/`: a link of theirs under this name would
        # lead the text into any file of this user's.
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
