"""A folder of recorded calls.

``recording.json`` says what was recorded and in which format; ``run-00137.jsonl`` has the calls of one run, a line
each: first the run's sample, then each call when it has ended, last how the run ended. Lines are only ever appended,
each with one write, so a process that is killed leaves whole lines, and at worst half of one, which readers pass over
and tell.
"""

from __future__ import annotations

import datetime
import errno
import json
import os
import re
import shlex
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import DrydockError, NoSpace, RecordingExists, RecordingUnusable, RunsNotWritable
from harness.openai_api.recording.clean import Cleaner, cleaned
from harness.openai_api.recording.exchange import Exchange, Malformed
from harness.places import shown

VERSION = 1
META = "recording.json"
_NAME = re.compile(r"run-(\d{5,9})\.jsonl")

# Far more than a run has; a file made to fill the memory isn't read to its end.
MAX_FILE = 512 * 1024 * 1024
MAX_META = 1024 * 1024


@dataclass(frozen=True)
class RecordedRun:
    """One run of a recording.

    Args:
        sample: what ``run`` was given; empty where the recording doesn't say.
        about: what else was noted at its begin: the sample's line and index.
        exchanges: its calls, in the order in which they began.
        ended: how it ended (``reward`` and ``outcome``); None where it didn't.
        notes: what of the file could not be read, a sentence each.
    """

    run: int
    sample: dict[str, Any] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    exchanges: tuple[Exchange, ...] = ()
    ended: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()


class Writer:
    """Writes a recording while runs go on.

    Args:
        folder: made by ``create``.
        cleaner: takes secrets out of everything that is written.
    """

    def __init__(self, folder: Path, cleaner: Cleaner) -> None:
        self.folder = folder
        self._cleaner = cleaner
        self.failed: DrydockError | None = None

    @classmethod
    def create(cls, folder: Path, about: Mapping[str, Any], cleaner: Cleaner) -> Writer:
        """Begin a recording in a new or empty folder.

        Args:
            about: what is recorded: agent, data, seed, model, the server's path.

        Raises:
            RecordingExists: something is in the folder.
            RunsNotWritable, NoSpace: it can't be written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise RecordingExists(
                    f"{shown(folder)} isn't empty",
                    mend=f"RECORD={shlex.quote(shown(folder) + '-2')}   # or remove that folder first",
                )
            writer = cls(folder, cleaner)
            writer._write_meta(about)
        except OSError as error:
            raise explained(error, folder) from None
        return writer

    def begin_run(self, run: int, sample: Mapping[str, Any], **about: Any) -> None:
        """A run begins; its sample is what it will be given again."""
        self._append(run, {"sample": self._cleaner.data(dict(sample)), "about": about})

    def add(self, exchange: Exchange) -> None:
        """A call has ended; those of a run below 0, which only tries things out, aren't kept."""
        if exchange.run < 0:
            return
        self._append(exchange.run, {"call": cleaned(exchange, self._cleaner).as_dict()})

    def end_run(self, run: int, outcome: str, reward: Any = None) -> None:
        """A run has ended.

        Args:
            outcome: in a word or two: returned, raised, cut …
            reward: as it is in the report.
        """
        self._append(run, {"ended": {"outcome": outcome, "reward": self._cleaner.data(reward)}})

    def check(self) -> None:
        """Raise what kept the recording from being written, if something did."""
        if self.failed is not None:
            raise self.failed

    def _append(self, run: int, value: Mapping[str, Any]) -> None:
        if self.failed is not None:
            return
        line = json.dumps(value, default=str).encode() + b"\n"
        try:
            # Opened each time: thousands of runs may be under way, and files that a process may open are few.
            descriptor = os.open(run_file(self.folder, run), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                while line:
                    line = line[os.write(descriptor, line) :]
            finally:
                os.close(descriptor)
        except OSError as error:
            self.failed = explained(error, self.folder)

    def _write_meta(self, about: Mapping[str, Any]) -> None:
        made = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        meta = {"drydock_recording": VERSION, "made": made, **self._cleaner.data(dict(about))}
        descriptor, beside = tempfile.mkstemp(prefix=f".{META}.", dir=self.folder)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(meta, file, indent=2, default=str)
            file.write("\n")
        os.chmod(beside, 0o644)
        os.replace(beside, self.folder / META)


@dataclass(frozen=True)
class Recording:
    """A recording to replay.

    Args:
        about: what ``recording.json`` says.
        runs: indices of its runs, ascending.
    """

    folder: Path
    about: dict[str, Any]
    runs: tuple[int, ...]

    @classmethod
    def open(cls, folder: Path) -> Recording:
        """Look into a recording.

        Raises:
            RecordingUnusable: there is none, it is of another format, or it has no runs.
        """
        try:
            about = json.loads(_read(folder / META, MAX_META))
            names = sorted(entry.name for entry in folder.iterdir())
        except FileNotFoundError:
            raise RecordingUnusable(f"{folder} is no recording: it has no {META}") from None
        except OSError as error:
            raise RecordingUnusable(f"the recording {folder} can't be read: {error.strerror or error}") from None
        except (ValueError, RecursionError):
            raise RecordingUnusable(f"{folder / META} is no JSON") from None
        version = about.get("drydock_recording") if isinstance(about, dict) else None
        if version != VERSION:
            raise RecordingUnusable(
                f"{folder} is a recording of format {version!r}, and this Drydock reads {VERSION}",
                mend="record again with RECORD=, or take the Drydock that recorded it",
            )
        runs = tuple(sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name))))
        if not runs:
            raise RecordingUnusable(f"the recording {folder} has no runs")
        return cls(folder, about, runs)

    @property
    def base_path(self) -> str:
        """The path below which the recorded server had OpenAI's routes."""
        path = self.about.get("base_path", "/v1")
        return path if isinstance(path, str) and path.startswith("/") and path.isprintable() else "/v1"

    @property
    def model(self) -> str:
        """The model's name as the agent was given it."""
        model = self.about.get("model")
        return model if isinstance(model, str) else ""

    def pick(self, run: int | None) -> RecordedRun:
        """The wanted run, by default the first.

        Raises:
            RecordingUnusable: there is no such run.
        """
        wanted = self.runs[0] if run is None else run
        if wanted not in self.runs:
            some = ", ".join(map(str, self.runs[:5])) + (f" … {self.runs[-1]}" if len(self.runs) > 5 else "")
            raise RecordingUnusable(
                f"the recording {self.folder} has no run {wanted}", mend=f"RUN={self.runs[0]}   # there are: {some}"
            )
        return read_run(self.folder, wanted)


def run_file(folder: Path, run: int) -> Path:
    """Where a run's calls are."""
    return folder / f"run-{run:05d}.jsonl"


def read_run(folder: Path, run: int) -> RecordedRun:
    """Read a run as far as it was written; what can't be read is in its notes.

    Raises:
        RecordingUnusable: the file can't be read at all.
    """
    path = run_file(folder, run)
    try:
        raw = _read(path, MAX_FILE)
    except OSError as error:
        raise RecordingUnusable(f"{path} can't be read: {error.strerror or error}") from None
    *lines, rest = raw.split(b"\n")
    notes = [f"the last line of {path.name} is half-written and was left out"] if rest.strip() else []
    sample: dict[str, Any] = {}
    about: dict[str, Any] = {}
    ended: dict[str, Any] | None = None
    exchanges: dict[int, Exchange] = {}
    for number, line in enumerate(lines, start=1):
        try:
            value = _object(json.loads(line))
            if "call" in value:
                exchange = Exchange.from_dict(value["call"])
                if exchange.run != run:
                    raise Malformed(f"it is of run {exchange.run}")
                exchanges[exchange.number] = exchange
            elif "sample" in value:
                sample, about = _object(value["sample"]), _object(value.get("about", {}))
            elif "ended" in value:
                ended = _object(value["ended"])
        except (ValueError, TypeError, RecursionError) as error:
            notes.append(f"line {number} of {path.name} was left out: {str(error)[:200]}")
    ordered = tuple(exchanges[number] for number in sorted(exchanges))
    return RecordedRun(run, sample, about, ordered, ended, tuple(notes))


def explained(error: OSError, folder: Path) -> DrydockError:
    """An error of the file system in words."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpace(f"no space left to record into {folder}", consequence="The recording isn't whole.")
    return RunsNotWritable(
        f"{folder} can't be recorded into: {error.strerror or error}",
        consequence="The recording isn't whole.",
        mend="RECORD=FOLDER   # a new folder that you may write to",
    )


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Malformed("no JSON object")
    return value


def _read(path: Path, most: int) -> bytes:
    """A regular file's bytes: a pipe in its place would never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        if status.st_size > most:
            raise OSError(errno.EFBIG, f"it is larger than {most // 1024 // 1024} MB")
        return file.read()
