"""What `make run` kept about the processes of a dump: records of those that have ended, and the end of the output.

What reads a record is loaded where there is one: it has pydantic check it, which takes longer than a verdict.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import NoSuchRun
from harness.processes.sampling.model import ProcessEntry
from harness.runs import shown

if TYPE_CHECKING:
    from harness.processes.record import ProcessRecord

_MOST_RUNS, _OUTPUT_BYTES = 20, 256 * 1024


@dataclass
class KeptRun:
    """One run to which processes of the dump belong.

    Attributes:
        logs: the ends of its output, by file name.
    """

    name: str
    processes: list[ProcessRecord]
    logs: dict[str, bytes]


def runs_of(entries: Sequence[ProcessEntry], root: Path) -> list[KeptRun]:
    """Runs under ``root`` that one of these processes belongs to, the newest first."""
    known = {(number, entry.start_ticks) for entry in entries for number in (entry.pid, entry.own_pid) if number}
    found = []
    try:
        folders = sorted(root.glob("*-run*"), reverse=True)
    except OSError:
        return []
    if not folders:
        return []
    from harness.processes.running import RUNNING, add_ended, read_run

    folders = [folder for folder in folders if _is_file(folder / RUNNING)]
    for folder in folders[:_MOST_RUNS]:
        try:
            record = read_run(folder).record
        except NoSuchRun:
            continue
        if any((process.pid, process.start_ticks) in known for process in record.processes):
            add_ended(folder, record)
            names = [record.stdout.file, record.stderr.file]
            logs = {name: _end_of(folder / name) for name in dict.fromkeys(names) if name}
            found.append(KeptRun(shown(folder), record.processes, {k: v for k, v in logs.items() if v}))
    return found


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _end_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _OUTPUT_BYTES))
            if size > _OUTPUT_BYTES:
                file.readline()
            return file.read(_OUTPUT_BYTES)
    except OSError:
        return b""
