"""The list of a run's processes, which may be millions: a verifier that starts a program for each answer does that."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from harness.processes.record import ProcessRecord, process_record
from harness.processes.tee import write_all
from harness.processes.watch import Tracked

FILE = "processes.jsonl"

# Records kept for result.json; beyond the first number only of those that didn't end well, beyond the second of none.
_KEEP_ALL = 2000
_KEEP_FAILED = 4000


class Ledger:
    """Writes each process that ended as one line of a file at once, and remembers the ones that matter.

    Args:
        folder: the run's folder.
        redact: takes secrets out of command lines.

    Attributes:
        kept: records for the result.
        count: how many ended in all.
        problem: why the file is incomplete; empty if it isn't.
    """

    def __init__(self, folder: Path, redact: Callable[[str], str]) -> None:
        self.kept: list[ProcessRecord] = []
        self.count = 0
        self.problem = ""
        self.main: ProcessRecord | None = None
        self._redact = redact
        self._main_pid = 0
        self._marks: dict[int, tuple[bool, str]] = {}
        self._lines: list[str] = []
        self._file = os.open(folder / FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def expect_main(self, pid: int) -> None:
        """Say which process is the command itself."""
        self._main_pid = pid

    def mark(self, pid: int, *, left_behind: bool, signal: str = "") -> None:
        """Remember that a process which still runs was left behind, or that we sent it a signal."""
        before, last = self._marks.get(pid, (False, ""))
        self._marks[pid] = (left_behind or before, signal or last)

    def ended(self, tracked: Tracked) -> None:
        """Enter a process that has ended."""
        record = self.record(tracked)
        self._marks.pop(tracked.pid, None)
        self.count += 1
        if record.main:
            self.main = record
        self._lines.append(record.model_dump_json() + "\n")
        keep = self.count <= _KEEP_ALL or record.main or record.left_behind
        if keep or (record.failed and len(self.kept) < _KEEP_FAILED):
            self.kept.append(record)

    def record(self, tracked: Tracked) -> ProcessRecord:
        """What is known of a process by now."""
        record = process_record(tracked, self._redact)
        record.left_behind, record.ended_by_us = self._marks.get(tracked.pid, (False, ""))
        if tracked.pid == self._main_pid and self.main is None:
            record.main = True
        return record

    def flush(self) -> None:
        """Put what was entered since the last time on disk."""
        data, self._lines = "".join(self._lines).encode(), []
        if not data or self.problem:
            return
        try:
            write_all(self._file, data)
        except OSError as error:
            self.problem = f"{FILE} is incomplete: {error.strerror}"

    def close(self) -> None:
        """Flush and close the file."""
        self.flush()
        os.close(self._file)
