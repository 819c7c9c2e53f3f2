"""The data set: one JSON object a line, each checked, one of them taken at random."""

from __future__ import annotations

import json
import random
import secrets
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.checks import formats
from harness.errors import DataNotFound, DataUnreadable
from harness.places import shown

# Named one by one up to here; a file in another format would otherwise fill the screen.
MAX_NAMED = 20


@dataclass(frozen=True)
class BadLine:
    """A line that is no sample.

    Args:
        number: counts from 1, as editors do.
    """

    number: int
    reason: str


@dataclass
class DataSet:
    """A file of samples, of which only the places of its lines are kept in memory.

    Args:
        bad: lines that can't be used, the first of them.
        bad_count: all of them.
        blank: empty lines, which are passed over.
    """

    path: Path
    offsets: array[int] = field(default_factory=lambda: array("Q"))
    numbers: array[int] = field(default_factory=lambda: array("Q"))
    bad: list[BadLine] = field(default_factory=list)
    bad_count: int = 0
    blank: int = 0

    def __len__(self) -> int:
        return len(self.offsets)

    def sample(self, index: int) -> Sample:
        """Read one sample again."""
        with self.path.open("rb") as file:
            file.seek(self.offsets[index])
            return Sample(index, self.numbers[index], json.loads(_decode(file.readline(), self.numbers[index])))


@dataclass(frozen=True)
class Sample:
    """One sample.

    Args:
        index: among the usable ones.
        line: in the file.
    """

    index: int
    line: int
    data: dict[str, Any]


def find(given: str, folders: Sequence[Path]) -> Path:
    """The data set's file.

    Raises:
        DataNotFound: there is none.
    """
    wanted = Path(given).expanduser()
    for candidate in [wanted] if wanted.is_absolute() else [folder / wanted for folder in folders]:
        if candidate.is_file():
            return candidate.resolve()
    beside = [folder / place for folder in folders for place in (wanted.parent, "data")]
    near = sorted({path.name for place in beside for path in place.glob("*.jsonl") if path.is_file()})
    raise DataNotFound(
        f"there is no data set {given}",
        consequence="" if wanted.is_absolute() else f"Looked in {', '.join(map(shown, folders))}.",
        mend="DATA=FILE.jsonl" + (f"   # there are: {', '.join(near[:8])}" if near else ""),
    )


def read(path: Path) -> DataSet:
    """Check every line of a file.

    Raises:
        DataUnreadable: the file can't be read at all, or all of it is in another format.
    """
    data = DataSet(path)
    offset = 0
    try:
        if other := formats.by_its_first_bytes(path):
            raise _another_format(path, other)
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                if not raw.strip():
                    data.blank += 1
                elif reason := _fault(raw, number):
                    data.bad_count += 1
                    if len(data.bad) < MAX_NAMED:
                        data.bad.append(BadLine(number, reason))
                else:
                    data.offsets.append(offset)
                    data.numbers.append(number)
                offset += len(raw)
        if data.bad_count and not len(data) and (other := formats.by_its_text(path)):
            raise _another_format(path, other)
    except OSError as error:
        raise DataUnreadable(f"{path} can't be read: {error.strerror}") from None
    return data


def _another_format(path: Path, other: formats.Format) -> DataUnreadable:
    wanted = "DATA=FILE.jsonl   # one JSON object a line"
    return DataUnreadable(
        f"{path.name} is {other.name}",
        consequence="Samples are read one JSON object a line. Nothing was run.",
        mend=f"{other.mend}\n{wanted}" if other.mend else wanted,
    )


def choose(data: DataSet, seed: int | None) -> tuple[int, int]:
    """A seed (the given one, or a new one) and the sample that it leads to; equal seeds lead to equal samples."""
    seed = secrets.randbelow(2**31) if seed is None else seed
    return seed, random.Random(seed).randrange(len(data))


def several(data: DataSet, seed: int | None, count: int) -> tuple[int, list[Sample]]:
    """A seed and as many samples: all of them in random order, and again where there are too few."""
    seed = secrets.randbelow(2**31) if seed is None else seed
    order = list(range(len(data)))
    random.Random(seed).shuffle(order)
    return seed, [data.sample(order[number % len(order)]) for number in range(count)]


def _decode(raw: bytes, number: int) -> str:
    # Windows editors put a mark in front of the first line.
    return raw.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8")


def _fault(raw: bytes, number: int) -> str:
    """Why a line is no sample; empty where it is one."""
    try:
        value = json.loads(_decode(raw, number))
    except UnicodeDecodeError as error:
        return f"byte {error.start + 1} is no UTF-8"
    except json.JSONDecodeError as error:
        return f"no JSON: {error.msg} at column {error.colno}"
    except RecursionError:
        return "nested too deeply"
    except ValueError:
        return "a number with more digits than Python reads"
    if isinstance(value, dict):
        return "" if value else "an empty object"
    kind = {"list": "a list", "str": "a string", "NoneType": "null", "bool": "true or false"}.get(
        type(value).__name__, "a number"
    )
    return f"{kind}, not an object: run(data) gets a dict"
