"""Short ways to write stacks, threads and dumps in tests."""

from __future__ import annotations

import json
from typing import Any

from harness.hang.model import Dump, Frame, Process, Role, Sample, Stack, Thread

C10D = "torch/distributed/distributed_c10d.py"


def frame(text: str) -> Frame:
    """``all_reduce train.py:12`` as a frame."""
    name, _, place = text.rpartition(" ")
    file, _, line = place.rpartition(":")
    return Frame(name, file or place, int(line) if file else 0)


def stack(*frames: str) -> Stack:
    """Frames innermost first."""
    return Stack(tuple(frame(text) for text in frames))


def thread(*frames: str, name: str = "MainThread", active: bool | None = False, gil: bool = False) -> Thread:
    """One thread."""
    return Thread(name, stack(*frames), active, gil)


def collective(operation: str = "all_reduce", line: int = 10, *outer: str) -> Thread:
    """A thread that waits in a collective called at a line of train.py."""
    return thread(f"{operation} {C10D}:3000", f"step train.py:{line}", *outer, "<module> train.py:99")


def process(*threads: Thread, id: str = "rank0", role: Role = "rank", pid: int = 1, **more: Any) -> Process:
    """A process with one sample."""
    rank = int(id.removeprefix("rank")) if id.startswith("rank") else None
    return Process(id=id, role=role, rank=rank, pid=pid, samples=[Sample(threads)], **more)


def sampled(first: Thread, second: Thread, cpu: float = 0.0, **more: Any) -> Process:
    """A process with two samples, five seconds apart."""
    found = process(first, **more)
    found.samples = [Sample((first,), 0.0, cpu_seconds=1.0), Sample((second,), 5.0, cpu_seconds=1.0 + cpu)]
    return found


def dump(*processes: Process, **more: Any) -> Dump:
    """A dump of these."""
    return Dump(processes=list(processes), **more)


def pyspy(*frames: str, pid: int = 7, name: str | None = "MainThread", active: bool = False) -> dict[str, Any]:
    """One thread as py-spy's JSON has it."""
    entries = [
        {
            "name": one.name,
            "filename": f"/venv/lib/python3.11/site-packages/{one.file}",
            "module": None,
            "short_filename": one.file,
            "line": one.line,
            "locals": None,
            "is_entry": False,
            "is_shim_entry": False,
        }
        for one in map(frame, frames)
    ]
    return {
        "pid": pid,
        "thread_id": 140000000000000,
        "thread_name": name,
        "os_thread_id": pid,
        "active": active,
        "owns_gil": False,
        "frames": entries,
        "process_info": None,
    }


def pyspy_text(*threads: dict[str, Any]) -> str:
    """A file of py-spy's JSON."""
    return json.dumps(list(threads), separators=(",", ":"))
