"""What has been gathered so far, on disk: an interrupted comparison goes on, and memory doesn't grow with the data."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from array import array
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from harness.compare.model import Sample, Score
from harness.errors import Busy
from harness.runs.folder import explained


class Lines:
    """A file of JSON objects with ids, of which only the places are kept in memory; the last of an id counts.

    Args:
        fits: takes one of them; raises TypeError or KeyError for what isn't such a thing, where the file then ends.
    """

    def __init__(self, path: Path, fits: Callable[[dict[str, Any]], object] = dict) -> None:
        self.path = path
        self._places: dict[int, int] = {}
        self._file: IO[bytes] = path.open("a+b")
        self._file.seek(0)
        end = 0
        for raw in self._file:
            try:
                value = json.loads(raw)
                fits(value)
                number = value["id"]
            except (ValueError, KeyError, TypeError, RecursionError):
                break  # cut off in mid-write
            if type(number) is not int or not 0 <= number < 2**63 or not raw.endswith(b"\n"):
                break
            self._places[number] = end
            end += len(raw)
        self._file.truncate(end)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, number: object) -> bool:
        return number in self._places

    def ids(self) -> array[int]:
        """Of all that is there, in order."""
        return array("q", sorted(self._places))

    def add(self, value: Mapping[str, Any]) -> None:
        """Write one; it is on its way to the disk when this returns.

        Raises:
            NoSpace, RunsNotWritable: it can't be written.
        """
        try:
            self._file.seek(0, 2)
            place = self._file.tell()
            self._file.write(json.dumps(value).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise explained(error, self.path.parent) from None
        self._places[value["id"]] = place

    def get(self, number: int) -> dict[str, Any]:
        """Read one."""
        self._file.seek(self._places[number])
        found: dict[str, Any] = json.loads(self._file.readline())
        return found

    def close(self) -> None:
        """Let go of the file."""
        with contextlib.suppress(OSError):  # what couldn't be written is tried once more
            self._file.close()


class Store:
    """A comparison's folder.

    Args:
        folder: where it is; made if it isn't there.

    Raises:
        Busy: another process has it.
        NoSpace, RunsNotWritable: it can't be there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._held = os.open(folder, os.O_RDONLY)
            self._be_alone()
            self.samples = Lines(folder / "samples.jsonl", lambda value: Sample(**value))
        except OSError as error:
            raise explained(error, folder.parent) from None
        self._scores: dict[str, Lines] = {}
        self._answers: Lines | None = None

    def _be_alone(self) -> None:
        """Hold the folder until it is closed, or the process ends: two would write between each other's lines."""
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._held)
            raise Busy(
                f"the same comparison is going on already, in another process ({self.folder})",
                mend="wait for it; or other settings, which make it another comparison",
            ) from None
        except OSError:
            pass  # a file system without locks

    def scores(self, of: str) -> Lines:
        """What somebody says about the samples: ``bfloat16``, ``float32``, ``second``."""
        if of not in self._scores:
            self._scores[of] = Lines(self.folder / f"reference-{of}.jsonl", lambda value: value["logprobs"])
        return self._scores[of]

    @property
    def answers(self) -> Lines:
        """What the trainer's model answered itself, and both sides' rewards; only with a reward function."""
        if self._answers is None:
            self._answers = Lines(
                self.folder / "answers.jsonl", lambda row: (dict(row["engine"]), dict(row["reference"]))
            )
        return self._answers

    def sample(self, number: int) -> Sample:
        """One sample."""
        return Sample(**self.samples.get(number))

    def all_samples(self) -> Iterator[Sample]:
        """All of them, in order of their numbers."""
        for number in self.samples.ids():
            yield self.sample(number)

    def score(self, of: str, number: int) -> Score | None:
        """What somebody says about one sample; None where they didn't."""
        lines = self.scores(of)
        if number not in lines:
            return None
        found = lines.get(number)
        return Score(number, found["logprobs"], found.get("top") or [])

    def close(self) -> None:
        """Let go of the files."""
        for lines in (self.samples, *self._scores.values(), self._answers):
            if lines is not None:
                lines.close()
        os.close(self._held)


def key(job: Mapping[str, Any]) -> str:
    """The same for the same comparison: what decides the outcome, and nothing else."""
    return hashlib.sha256(json.dumps(job, sort_keys=True, default=str).encode()).hexdigest()[:16]
