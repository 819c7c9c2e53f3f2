"""What a parser promises, as data: examples that it reads, and the errors that it may answer with."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.unit.fuzz.mutate import broken

# Of CPU, for a few kilobytes; what is clean takes a thousandth of it.
MOST_SECONDS = 3.0
MOST_BYTES = 400 * 2**20


@dataclass(frozen=True)
class Parser:
    """One parser.

    Attributes:
        name: for people.
        read: takes the bytes and a folder of its own to put them into, if it reads files.
        examples: what it reads without an error.
        refuses: errors of ours; all others are faults.
    """

    name: str
    read: Callable[[bytes, Path], Any]
    examples: tuple[bytes, ...]
    refuses: tuple[type[BaseException], ...] = ()


def held(parser: Parser, data: bytes, folder: Path) -> None:
    """Read it, and hold the parser to its promise: an error of its own or none, in time and without the memory.

    Raises:
        AssertionError: it broke it.
        BaseException: another error than its own.
    """
    before, started = _peak(), time.process_time()
    try:
        parser.read(data, folder)
    except parser.refuses:
        pass
    spent, grown = time.process_time() - started, _peak() - before
    assert spent < MOST_SECONDS, f"{parser.name} took {spent:.1f} s for {len(data)} bytes"
    assert grown < MOST_BYTES, f"{parser.name} took {grown >> 20} MiB for {len(data)} bytes"


def inputs(parser: Parser, seed: int, count: int) -> Iterator[bytes]:
    """Broken examples of a seed."""
    chance = Random(seed)
    for _ in range(count):
        yield broken(chance, chance.choice(parser.examples))


def in_file(name: str, read: Callable[[Path], Any]) -> Callable[[bytes, Path], Any]:
    """A parser of files as one of bytes.

    Args:
        name: the file's, may be in a folder.
    """

    def write_and_read(data: bytes, folder: Path) -> Any:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return read(path)

    return write_and_read


def of_text(read: Callable[[str], Any]) -> Callable[[bytes, Path], Any]:
    """A parser of what a program printed as one of bytes."""
    return lambda data, folder: read(data.decode("utf-8", "replace"))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
