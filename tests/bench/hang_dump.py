"""What a hang dump of many torch processes costs, against bare py-spy in the same run.

The limit is physical: the CPU time of as many bare ``py-spy dump --json``, all cores at work, over the cores. Beside it
the loop that the guides tell people to type, one process after another. The longest stop of a target is looked for in
/proc.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from tests.support.harness import HARNESS
from tests.support.torch_python import torch_python

COUNT = int(os.environ.get("BENCH_PROCESSES", "64"))
TURNS = int(os.environ.get("BENCH_TURNS", "7"))
# One imports torch and the others are its forks: 64 imports would take minutes and measure nothing.
PROGRAM = """
import os, sys, torch
def deep(n):
    if n: return deep(n - 1)
    os.write(1, b"%d\\n" % os.getpid())  # in one piece: all write to one pipe
    import time
    time.sleep(100000)
for _ in range(int(sys.argv[1]) - 1):
    if os.fork() == 0: break
deep(25)
"""

# What sleeps isn't stopped at all; this one has to be.
BUSY = """
import os, torch
def deep(n):
    if n: return deep(n - 1)
    os.write(1, b"ready\\n")
    while True: pass
deep(25)
"""


def run() -> bool:
    """Measure and print; returns whether the goals are met."""
    job = subprocess.Popen(
        [torch_python(), "-c", PROGRAM, str(COUNT)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert job.stdout is not None
    try:
        return _measure([int(job.stdout.readline()) for _ in range(COUNT)])
    finally:
        os.killpg(job.pid, 9)
        job.wait()


def _measure(pids: list[int]) -> bool:
    py_spy = str(Path(sys.executable).with_name("py-spy"))
    cores = len(os.sched_getaffinity(0))
    _bare(py_spy, pids[:4], "--json")  # what the first one reads from disk is no part of it
    empty: Callable[[], list[float]] = list
    limits, firsts, seconds, verdicts, wholes, loops, stops = (empty() for _ in range(7))
    with tempfile.TemporaryDirectory() as runs:
        _dump(pids[:4], runs)
        for _ in range(TURNS):
            cpu, _ = _bare(py_spy, pids, "--json", at_once=cores)
            limits.append(cpu / cores)
            verdict, whole, rounds = _dump(pids, runs)
            verdicts.append(verdict)
            wholes.append(whole)
            firsts.append(rounds[0])
            seconds.append(rounds[1])
            loops.append(_bare(py_spy, pids)[1])
        for _ in range(TURNS):
            with _busy() as pid:
                stopped = _Stops(pid)  # both take a core for themselves, so these dumps aren't timed
                _dump([*pids, pid], runs)
                stops.append(stopped.end())
    limit, longest = median(limits), median(stops)
    sample, verdict = median(firsts) / limit, median(verdicts) / limit
    rows = [
        (f"{COUNT} bare dumps: CPU time over {cores} cores", f"{limit:.2f} s", f"medians of {TURNS} in turns"),
        ("one sample of all, against that", f"{median(firsts):.2f} s, ratio {sample:.2f}", "<= 1.15"),
        ("the second sample of all", f"{median(seconds):.2f} s, ratio {median(seconds) / limit:.2f}", ""),
        ("command to verdict, both samples", f"{median(verdicts):.2f} s, ratio {verdict:.2f}", "<= 2"),
        ("command to its end, everything kept", f"{median(wholes):.2f} s, ratio {median(wholes) / limit:.2f}", ""),
        ("longest stop of a target that computes", f"{1000 * longest:.1f} ms", "<= 5 ms"),
        ("the guide's loop, one sample", f"{median(loops):.2f} s, ratio {median(loops) / limit:.2f}", ""),
    ]
    for row in rows:
        print("  ".join(row))
    print("  stops of each turn: " + ", ".join(f"{1000 * stop:.1f}" for stop in stops) + " ms")
    return sample <= 1.15 and verdict <= 2 and longest <= 0.005


@contextmanager
def _busy() -> Iterator[int]:
    job = subprocess.Popen([torch_python(), "-c", BUSY], stdout=subprocess.PIPE)
    try:
        assert job.stdout is not None
        job.stdout.readline()
        yield job.pid
    finally:
        job.kill()
        job.wait()


def _bare(py_spy: str, pids: list[int], *options: str, at_once: int = 1) -> tuple[float, float]:
    """CPU and wall seconds of plain dumps.

    Args:
        at_once: so many side by side. Two cores that share one core's units are slower together than one of them alone,
            so the limit is taken with all of them at work.
    """

    def dump(pid: int) -> None:
        subprocess.run([py_spy, "dump", *options, "--pid", str(pid)], stdout=subprocess.DEVNULL, check=True)

    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(dump, pids))
    wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def _dump(pids: list[int], runs: str) -> tuple[float, float, list[float]]:
    """Seconds from command to verdict, to the end, and of each round of samples."""
    started = time.monotonic()
    with subprocess.Popen(
        [str(HARNESS), "hang-dump", "--gap", "0", "--pids", ",".join(map(str, pids))],
        env={**os.environ, "RUNS": runs}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as command:  # fmt: skip
        assert command.stdout is not None
        first = command.stdout.readline()
        verdict = time.monotonic() - started
        rest = command.stdout.read()
    assert first
    assert rest
    manifest = json.loads((Path(runs) / "latest/manifest.json").read_text())
    [node] = manifest["environment"].values()
    return verdict, time.monotonic() - started, node["sampling_seconds"]


class _Stops(threading.Thread):
    """Watches how long a process is held (state t or T) at a time."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._path, self._over, self._longest = f"/proc/{pid}/stat", threading.Event(), 0.0
        self.start()

    def run(self) -> None:
        since = None
        while not self._over.is_set():
            with open(self._path, "rb") as file:
                held = file.read().rpartition(b") ")[2][:1] in (b"t", b"T")
            now = time.monotonic()
            if held:
                since = since or now
                self._longest = max(self._longest, now - since)
            else:
                since = None

    def end(self) -> float:
        """The longest stop in seconds; 0 where none was long enough to be seen."""
        self._over.set()
        self.join()
        return self._longest


if __name__ == "__main__":
    sys.exit(0 if run() else 1)
