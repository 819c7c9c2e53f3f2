"""Which files of a run go into a report: small texts; never weights, pages or long recordings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

KB, MB = 1024, 1024 * 1024
RUNS = 5
FILE_BYTES = 256 * KB
RECORDING_BYTES = 1 * MB
ALL_BYTES = 20 * MB
# Text that says something of a run. Pages are made from the JSON beside them, and may show more than it.
TEXT = frozenset({".json", ".jsonl", ".txt", ".log", ".xml", ".yaml", ".yml", ".toml", ".md", ""})
LOGS = frozenset({".log", ".txt", ""})
RECORDING = "recording.json"


@dataclass(frozen=True)
class Candidate:
    """A file of a run.

    Attributes:
        name: path within the runs' folder.
        size: bytes.
    """

    name: str
    size: int


@dataclass(frozen=True)
class Chosen:
    """One that goes in; of a log too long for that its end does."""

    name: str
    most: int


@dataclass(frozen=True)
class LeftOut:
    """What doesn't go in, and why."""

    name: str
    reason: str

    def as_dict(self) -> dict[str, str]:
        """For the archive's list and ``--json``."""
        return {"name": self.name, "reason": self.reason}


def choose(files: Iterable[Candidate], room: int = ALL_BYTES) -> tuple[list[Chosen], list[LeftOut]]:
    """Decide on files of the newest runs.

    Args:
        room: bytes for all of them together; the first in the list have the first call on it.
    """
    files = list(files)
    recordings = _recordings(files)
    chosen: list[Chosen] = []
    left: list[LeftOut] = []
    told: set[str] = set()
    for one in files:
        path = PurePosixPath(one.name)
        recording = next((str(parent) for parent in path.parents if str(parent) in recordings), None)
        if recording is not None and recordings[recording] > RECORDING_BYTES:
            if recording not in told:
                told.add(recording)
                left.append(LeftOut(f"{recording}/", f"a recording of {recordings[recording] // KB:,} kB"))
            continue
        suffix = path.suffix.lower()
        if suffix not in TEXT:
            reason = "a page: the JSON beside it has what it shows" if suffix == ".html" else "not a text"
            left.append(LeftOut(one.name, reason))
            continue
        if one.size > FILE_BYTES and suffix not in LOGS and recording is None:
            left.append(LeftOut(one.name, f"{one.size // KB:,} kB; {FILE_BYTES // KB} kB is the most"))
            continue
        takes = one.size if recording is not None else min(one.size, FILE_BYTES)
        if takes > room:
            left.append(LeftOut(one.name, f"the report would be over {ALL_BYTES // MB} MB"))
            continue
        room -= takes
        chosen.append(Chosen(one.name, takes))
    return chosen, left


def _recordings(files: Sequence[Candidate]) -> dict[str, int]:
    """Folders that are recordings of an agent's calls, with their sizes."""
    folders = {str(PurePosixPath(one.name).parent) for one in files if PurePosixPath(one.name).name == RECORDING}
    return {
        folder: sum(one.size for one in files if folder in map(str, PurePosixPath(one.name).parents))
        for folder in folders
    }
