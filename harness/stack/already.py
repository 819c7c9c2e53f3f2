"""Is everything up already? Answered in a fraction of a second, as `docker compose up` would.

A full `up` reads all settings, hashes what images are made from and checks weights; importing what it needs for that
takes longer than Compose takes in all. So it writes down what it was asked and what it looked at. When nothing of that
has changed since, only the containers and the services are asked how they are, always for real. Whatever is not surely
the same means a full `up`; this module decides only that nothing has to be done. Light imports only.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.places import write_whole
from harness.stack.expected import Expected
from harness.stack.observe import Service

RECORD = "already.json"

# Beside the settings: what decides which engine is asked and which weights are found.
_ALSO = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "HOME", "HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "RUNS")

Stamp = tuple[int, int]  # time of change in ns, size; (0, 0) where there is no such file


@dataclass(frozen=True)
class Record:
    """What the last full `up` was asked, looked at and found.

    Attributes:
        names: the environment's variables that count.
        asked: a digest of their values; no value is kept, for some are secret.
        watched: files and folders that the answer depends on.
        owners: folders whose owner the containers run as, with user and group id.
        notes, rows: what `up` then says.
    """

    names: list[str]
    asked: str
    watched: dict[str, Stamp]
    owners: dict[str, list[int]]
    expected: Expected
    notes: list[str]
    rows: list[list[str]]

    @classmethod
    def read(cls, path: Path) -> Record | None:
        """A record as it was written, None where there is none that can be read."""
        try:
            raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            raw["names"] = list(map(str, raw["names"]))
            watched = {name: (int(stamp[0]), int(stamp[1])) for name, stamp in raw.pop("watched").items()}
            return cls(watched=watched, expected=Expected(**raw.pop("expected")), **raw)
        except (OSError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
            return None

    def write(self, path: Path) -> None:
        """Write it, whole or not at all."""
        write_whole(path, json.dumps(asdict(self)))

    def still_true(self, environ: Mapping[str, str]) -> bool:
        """Whether a full `up` would be asked the same now, and would look at the same."""
        return (
            self.asked == asked(self.names, environ)
            and all(stamp_of(path) == stamp for path, stamp in self.watched.items())
            and all(owner_of(path) == owner for path, owner in self.owners.items())
        )


def find(clone: Path, environ: Mapping[str, str]) -> Record | None:
    """The record of a stack of this clone that fits this call exactly, None where there is none."""
    for path in (clone / ".drydock").glob(f"*/{RECORD}"):
        record = Record.read(path)
        if record is not None and record.still_true(environ):
            return record
    return None


def fine(services: list[Service]) -> bool:
    """Whether every service is as it should be, and there is none too many."""
    return all(service.condition == "ok" and service.expected == len(service.containers) for service in services)


def asked(names: Iterable[str], environ: Mapping[str, str]) -> str:
    """A digest of what a call is asked by its environment."""
    values = [(name, environ.get(name, "")) for name in sorted({*names, *_ALSO})]
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def watch(paths: Iterable[Path]) -> dict[str, Stamp]:
    """The present state of files and of all that lies in folders; a folder changes when something comes or goes."""
    return {str(item): stamp_of(str(item)) for path in paths for item in _all(path)}


def stamp_of(path: str) -> Stamp:
    """The present state of one file or folder."""
    try:
        state = os.stat(path)
    except OSError:
        return 0, 0
    return state.st_mtime_ns, state.st_size


def owner_of(path: str) -> list[int]:
    """User and group id of a file's owner; empty where there is no such file."""
    try:
        state = os.stat(path)
    except OSError:
        return []
    return [state.st_uid, state.st_gid]


def _all(path: Path) -> Iterator[Path]:
    yield path
    if path.is_dir():
        for folder, folders, names in os.walk(path):
            folders[:] = [name for name in folders if name != "__pycache__"]
            yield from (Path(folder, name) for name in (*folders, *names))
