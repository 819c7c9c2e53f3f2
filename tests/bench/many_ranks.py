"""``diagnose`` on the dumps of very many ranks: five threads each, 40 frames a thread, twelve groups, cold caches.

Every dump has its own PID and thread ids, so that no two files are equal. The command is run from outside, and all of
its work counts: walking the folder, reading, deciding, printing, the page. The goal is in CPU seconds, which a machine
that others use doesn't change much; the seconds that passed are shown beside them.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from functools import lru_cache
from pathlib import Path

from tests.support.harness import HARNESS

SIZES = tuple(int(size) for size in os.environ.get("BENCH_RANKS", "10000,30000,100000").split(","))
GROUPS, THREADS, FRAMES = 12, 5, 40
_C10D = "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py"


def run() -> bool:
    """Measure and print; returns whether the goals are met."""
    rows, each = [], []
    cpu = gigabytes = 0.0
    for size in SIZES:
        cpu, seconds, gigabytes = _measure(size)
        each.append(cpu / size)
        seen = f"{cpu:.1f} s of CPU in {seconds:.1f} s, {gigabytes:.2f} GiB"
        rows.append((f"diagnose, {size} ranks", seen, "<= 30 s of CPU, <= 2 GiB"))
    growth = each[-1] / each[0]
    rows.append((f"CPU a rank, {SIZES[-1]} against {SIZES[0]}", f"ratio {growth:.2f}", "<= 1.2"))
    for row in rows:
        print("  ".join(row))
    return cpu <= 30 and gigabytes <= 2 and growth <= 1.2


def write(folder: Path, ranks: int) -> None:
    """The dumps; the last rank is late, the others wait for it in groups of their own."""
    for rank in range(ranks):
        group = GROUPS - 1 if rank == ranks - 1 else rank * (GROUPS - 1) // ranks
        (folder / f"rank{rank}.json").write_text(stacks(group, 100_000 + 7 * rank))


def stacks(group: int, pid: int) -> str:
    """One process of a group as py-spy writes it; no other has its numbers."""
    entries = [
        f'{{\n    "pid": {pid},\n    "thread_id": {140_000_000_000 + 4096 * (pid * THREADS + thread)},\n'
        f'    "thread_name": "{"MainThread" if thread == 0 else f"Thread-{thread}"}",\n'
        f'    "os_thread_id": {pid + thread},\n    "active": false,\n    "owns_gil": false,\n'
        f'    "frames": {_frames(group, thread)},\n    "process_info": null\n  }}'
        for thread in range(THREADS)
    ]
    return "[\n  " + ",\n  ".join(entries) + "\n]\n"


@lru_cache(maxsize=GROUPS * THREADS)
def _frames(group: int, thread: int) -> str:
    """One stack as py-spy writes it."""
    inner = ("all_reduce", _C10D, 2920) if group < GROUPS - 1 else ("read_shard", "/srv/train/data.py", 77)
    if thread:
        inner = ("wait", "/usr/lib/python3.11/threading.py", 327)
    calls = [inner] + [(f"layer_{group}_{thread}_{n}", f"/srv/train/model_{n}.py", 10 + n) for n in range(FRAMES - 1)]
    frames = [
        {"name": name, "filename": file, "module": None, "short_filename": file[1:].partition("/")[2], "line": line,
         "locals": None, "is_entry": False, "is_shim_entry": False}
        for name, file, line in calls
    ]  # fmt: skip
    return json.dumps(frames, indent=6)


def _measure(ranks: int) -> tuple[float, float, float]:
    """CPU seconds, seconds and peak memory (GiB) of the command."""
    folder = Path(tempfile.mkdtemp(prefix="ranks-"))
    try:
        write(folder, ranks)
        _forget(folder)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.monotonic()
        done = subprocess.run(
            [str(HARNESS), "diagnose", str(folder)],
            env={**os.environ, "RUNS": str(folder.parent / f"{folder.name}-runs")},
            stdout=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        seconds = time.monotonic() - started
        assert done.returncode == 1, done.returncode
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return cpu, seconds, max(before.ru_maxrss, after.ru_maxrss) / 2**20
    finally:
        shutil.rmtree(folder)
        shutil.rmtree(folder.parent / f"{folder.name}-runs", ignore_errors=True)


def _forget(folder: Path) -> None:
    """Have the kernel forget the files' content, as on the first look; without the right to do so they stay warm."""
    subprocess.run(["sync"], check=False)
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        print(f"  (the files in {folder.name} are warm: only root can have them forgotten)")


if __name__ == "__main__":
    sys.exit(0 if run() else 1)
