"""Small readers of the world for gatherers: a file, a program's output, a value that several checks need."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from harness.processes.crowding import patience

T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """What a program said.

    Attributes:
        code: exit code; None where there is no such program or it took too long.
        out, err: what it wrote.
        late: it took longer than it was given.
    """

    code: int | None
    out: str = ""
    err: str = ""
    late: bool = False

    @property
    def good(self) -> bool:
        return self.code == 0


def ask(command: Sequence[str], limit: float, environ: Mapping[str, str] | None = None) -> Answer:
    """Run a program to its end, but no longer than ``limit`` seconds (more on a busy machine); never raises."""
    try:
        done = subprocess.run(
            list(command),
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=limit * patience(),
            env=None if environ is None else {**os.environ, **environ},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer(None, late=True)
    except OSError:
        return Answer(None)
    return Answer(done.returncode, done.stdout, done.stderr)


def read(path: str | Path) -> str:
    """A small file's text without the blanks around it, "" where it can't be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def number(text: str) -> int | None:
    """A whole number out of a file of the kernel's; None where it holds a word such as ``max``."""
    return int(text) if text.lstrip("-").isdigit() else None


class Once(Generic[T]):
    """A value that several checks need and that is gathered by whichever asks first; the others wait for it."""

    def __init__(self, gather: Callable[[], T]) -> None:
        self._gather = gather
        self._lock = threading.Lock()
        self._values: list[T] = []

    def __call__(self) -> T:
        with self._lock:
            if not self._values:
                self._values.append(self._gather())
            return self._values[0]
