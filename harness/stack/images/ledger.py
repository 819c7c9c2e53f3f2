"""Whose build cache is it? So that `clean` can remove all of ours and nothing of anybody else.

The engine keeps one build cache for everybody, and a record of it says little: a description ("mount / from exec
/bin/sh -c …", "fileop target", "local source for context"), a time of creation and a parent. So every build of ours
writes down when each of its steps ran. A record is ours when it was made while a step of ours ran that makes such
records, and:

* for a command: the record's description has that command;
* for files: there are no more such records from that time than we had such steps, or it is parent or child of a record
  that is surely ours;
* for the layers of the image that a build stands on: one that is surely ours stands on it.

Where somebody else's build ran at the very same moment and that does not decide it, the record stays. Written as the
build goes on, so that also a build that was killed is known.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import docker.errors

from harness.settings import Settings
from harness.stack.images.solve_log import SolveLog

# How long a step may go on that nobody saw the end of, because the harness was killed.
UNSEEN_END_SECONDS = 30.0
# Times of steps are known to about a tenth of a second (see Recorder).
SLACK_SECONDS = 0.3
# The list of images that were pulled by us.
PULLED = "pulled.txt"


@dataclass(frozen=True)
class RanStep:
    """A step of a build of ours that really ran; times in seconds since 1970."""

    name: str
    started: float
    completed: float

    @property
    def sort(self) -> str:
        """Which kind of cache record it makes."""
        if self.name.startswith("[internal] load metadata"):
            return "none"
        if self.name.startswith("[internal] load"):
            return "dockerfile" if "build definition" in self.name else "local"
        words = re.sub(r"^\[[^]]*\]\s*", "", self.name).split(maxsplit=1)
        word = words[0] if words else ""
        return {"RUN": "exec", "COPY": "files", "ADD": "files", "WORKDIR": "files", "FROM": "base"}.get(word, "none")


@dataclass(frozen=True)
class CacheRecord:
    """One record of the engine's build cache."""

    id: str
    parents: tuple[str, ...]
    description: str
    created: float
    size: int

    @property
    def sort(self) -> str:
        """The kind of step that makes it; "other" where we make none such."""
        if re.match(r"mount \S+ from exec ", self.description):
            return "exec"
        for start, sort in (
            ("local source for dockerfile", "dockerfile"),
            ("local source for", "local"),
            ("fileop target", "files"),
            ("from local", "base"),
        ):
            if self.description.startswith(start):
                return sort
        return "other"


@dataclass(frozen=True)
class Removed:
    """What became of the build cache: records removed, bytes won back, records that could not be told apart."""

    records: int
    bytes: int
    undecided: int


class Recorder:
    """Writes down the steps of one build as they become known.

    Buildx moves the times that it reports, so that the first step starts when Buildx did. How far, shows when that
    first step is reported: at once, but for about a tenth of a second.

    Args:
        ahead: seconds by which the engine's clock is ahead of ours.
    """

    def __init__(self, path: Path, kind: str, ahead: float = 0.0) -> None:
        self._path = path
        self._kind = kind
        self._ahead = ahead
        self._shift: float | None = None
        self._written = ""

    def update(self, log: SolveLog) -> None:
        """Write down what is known by now, if it is news."""
        steps = [
            asdict(step) | {"error": bool(step.error)}
            for step in log.steps.values()
            if step.started and not step.cached
        ]
        if not steps:
            return
        if self._shift is None:
            self._shift = time.time() + self._ahead - min(seconds(str(step["started"])) for step in steps)
        text = json.dumps({"kind": self._kind, "shift": self._shift, "steps": steps}, indent=1)
        if text != self._written:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(text, encoding="utf-8")
            self._written = text


@contextlib.contextmanager
def recording(client: Any, settings: Settings, kind: str) -> Iterator[Recorder]:
    """Keep a record of one build, for as long as its cache may exist."""
    folder = _folder(client, settings)
    ahead = seconds(client.info()["SystemTime"]) - time.time()
    yield Recorder(folder / f"{time.time_ns()}-{kind}.json", kind, ahead)


def note_pulled(client: Any, settings: Settings, image: str) -> None:
    """Note that an image was not here before we pulled it."""
    path = _folder(client, settings) / PULLED
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{image}\n")


def remove_pulled(client: Any, settings: Settings) -> list[str]:
    """Remove the images that were not here before we pulled them; returns their names. One that is in use stays."""
    path = _folder(client, settings) / PULLED
    try:
        names = sorted(set(path.read_text(encoding="utf-8").split()))
    except OSError:
        return []
    removed = []
    for name in names:
        with contextlib.suppress(docker.errors.APIError):
            client.images.remove(name)
            removed.append(name)
    path.unlink()
    return removed


def remove_build_cache(client: Any, settings: Settings) -> Removed:
    """Remove every record of the engine's build cache that builds of ours have made, of this and earlier versions.

    Images first: a record that an image still shares is not given up.
    """
    folder = _folder(client, settings)
    steps = list(read_steps(folder))
    mine, undecided = ours(read_records(client), steps)
    bytes_won, removed = 0, 0
    # A record is given up only after those that stand on it; so again, as long as it helps.
    while mine:
        answer = _prune(client, sorted(mine))
        gone = set(answer.get("CachesDeleted") or []) & mine
        if not gone:
            break
        removed += len(gone)
        bytes_won += int(answer.get("SpaceReclaimed") or 0)
        mine -= gone
    if not mine and not undecided:
        for path in folder.glob("*.json"):
            path.unlink(missing_ok=True)
    return Removed(removed, bytes_won, len(undecided) + len(mine))


def ours(records: list[CacheRecord], steps: list[RanStep]) -> tuple[set[str], set[str]]:
    """Which records builds of ours have made, and which could be ours or somebody else's; by id."""
    sure: set[str] = set()
    doubtful: list[CacheRecord] = []
    for group, makers in _groups(records, steps):
        # A command names itself. Of other records there may be no more than steps of ours that can have made them.
        if group[0].sort == "exec" or (group[0].sort != "base" and len(group) <= len(makers)):
            sure |= {record.id for record in group}
        else:
            doubtful += group
    while related := [
        record for record in doubtful if record.sort in ("files", "base") and _kin(record, records, sure)
    ]:
        sure |= {record.id for record in related}
        doubtful = [record for record in doubtful if record.id not in sure]
    return sure, {record.id for record in doubtful if record.sort != "base"}


def read_records(client: Any) -> list[CacheRecord]:
    """The engine's whole build cache."""
    found = []
    for raw in client.api.df().get("BuildCache") or []:
        parents = raw.get("Parents") or ([raw["Parent"]] if raw.get("Parent") else [])
        found.append(
            CacheRecord(raw["ID"], tuple(parents), raw.get("Description", ""), seconds(raw["CreatedAt"]), raw["Size"])
        )
    return found


def read_steps(folder: Path) -> Iterable[RanStep]:
    """All steps that builds of ours ran on this engine; a half-written file is read as far as it can be."""
    for path in sorted(folder.glob("*.json")):
        try:
            written = json.loads(path.read_text(encoding="utf-8"))
            last = path.stat().st_mtime + UNSEEN_END_SECONDS
            found = [_step(step, float(written["shift"]), last) for step in written["steps"]]
        except (OSError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
            continue
        yield from found


def _step(written: Any, shift: float, last: float) -> RanStep:
    """One step; one whose end nobody saw ended by ``last``."""
    ended = seconds(written["completed"]) + shift if written["completed"] else last
    return RanStep(str(written["name"]), seconds(written["started"]) + shift, ended)


def seconds(text: str) -> float:
    """The engine's way of writing a time, in seconds since 1970; it has more digits than Python 3.10 reads."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    digits = re.match(r"\d*", fraction)
    moment = datetime.fromisoformat(whole).replace(tzinfo=timezone.utc)
    return moment.timestamp() + float(f"0.{digits[0]}" if digits and digits[0] else 0)


def _groups(records: list[CacheRecord], steps: list[RanStep]) -> Iterator[tuple[list[CacheRecord], list[RanStep]]]:
    """Records and steps that fit each other, directly or through others."""
    fitting = {record.id: {index for index, step in enumerate(steps) if _fits(record, step)} for record in records}
    waiting = [record for record in records if fitting[record.id]]
    while waiting:
        group = [waiting.pop(0)]
        makers = set(fitting[group[0].id])
        while more := [record for record in waiting if makers & fitting[record.id]]:
            group += more
            makers = makers.union(*(fitting[record.id] for record in more))
            waiting = [record for record in waiting if record not in more]
        yield group, [steps[index] for index in sorted(makers)]


def _fits(record: CacheRecord, step: RanStep) -> bool:
    """Whether this step may have made this record."""
    if record.sort != step.sort:
        return False
    if not step.started - SLACK_SECONDS <= record.created <= step.completed + SLACK_SECONDS:
        return False
    return record.sort != "exec" or _same_command(record.description, step.name)


def _same_command(description: str, step: str) -> bool:
    """The record has ``… exec /bin/sh -c COMMAND``, the step ``[2/5] RUN --mount=… COMMAND``."""
    command = " ".join(re.split(r" -\S*c ", description, maxsplit=1)[-1].split())
    # The step's name has the values of build arguments in their place.
    parts = [re.escape(part) for part in re.split(r"\$\{?\w+\}?", command)]
    return bool(command) and re.search(".*".join(parts) + "$", " ".join(step.split())) is not None


def _kin(record: CacheRecord, records: list[CacheRecord], sure: set[str]) -> bool:
    """Whether it is parent or child of a record that is surely ours."""
    return bool(sure & set(record.parents)) or any(record.id in other.parents for other in records if other.id in sure)


def _prune(client: Any, ids: list[str]) -> dict[str, Any]:
    """Ask the engine to give up these records; what is in use right now it keeps."""
    # One filter with all of them: the engine takes a regular expression, and only one of it.
    pattern = f"^({'|'.join(ids)})$"
    try:
        answer: dict[str, Any] = client.api.prune_builds(filters={"id": [pattern]}, all=True)
    except docker.errors.APIError:
        return {}
    return answer


def _folder(client: Any, settings: Settings) -> Path:
    """Where builds on this engine are written down: outside the clone, for they outlive it."""
    return settings.cache.expanduser() / "builds" / str(client.info()["ID"]).replace(":", "")[:24].lower()
