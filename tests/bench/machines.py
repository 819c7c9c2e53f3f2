"""What status, breakpoints and a hang dump cost with 1, 2, 4 and 8 machines in a cluster.

The machines are containers with networks of their own on this one, so wall times grow with their number here for a
reason that real ones don't have. What counts is the CPU time of whoever asks, a verb's own and its driver's in ``dev``;
and the size of the answer.

Started by itself, as root (``python -m tests.bench.machines``): eight Ray nodes take minutes to come up.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from tests.bench.timing import machine
from tests.support.harness import docker, own_project, wait_for
from tests.support.machines import Cluster, cluster_of

COUNTS = tuple(int(number) for number in os.environ.get("BENCH_MACHINES", "1,2,4,8").split(","))
TURNS = int(os.environ.get("BENCH_TURNS", "5"))
# Runs a verb in `dev` and says what it took: wall and CPU seconds.
MEASURE = """
import json, resource, subprocess, sys, time
started = time.monotonic()
done = subprocess.run(["harness", *sys.argv[1:], "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([time.monotonic() - started, used.ru_utime + used.ru_stime, len(done.stdout), done.returncode]))
"""


def main() -> None:
    """Measure and print a table."""
    print(machine())
    print(f"{'nodes':>5}  {'verb':<12} {'wall s':>7} {'CPU s':>7} {'answer KiB':>11}   medians of {TURNS}")
    with tempfile.TemporaryDirectory() as folder, cluster_of(own_project("bench"), Path(folder)) as cluster:
        for count in COUNTS:
            while len(cluster.lan.machines) < count - 1:
                cluster.worker(cluster.machine()).ok()
            wait_for("all nodes", lambda: list(cluster.states().values()) == ["alive"] * count, 300)  # noqa: B023
            measure(cluster, count)
    print(machine())


def measure(cluster: Cluster, count: int) -> None:
    """One actor on each machine waits at a breakpoint; then each verb in turn."""
    dev = cluster.head.container("dev")
    start = "/opt/drydock/with-env python /workspace/ranks.py stop_here > /tmp/log 2>&1 & echo $! > /tmp/pid; wait"
    docker("exec", "--detach", dev, "sh", "-c", start)
    try:
        wait_for("actors", lambda: f"ready {count}" in docker("exec", dev, "cat", "/tmp/log", check=False), 300)
        for verb in (["breakpoints"], ["hang-dump", "--gap", "1"]):
            taken = [in_dev(dev, verb) for _ in range(TURNS)]
            report(count, verb[0], taken)
        taken = []
        for _ in range(TURNS):
            before = os.times()
            ended = cluster.head.run("status", "--json").ok()
            after = os.times()
            used = after.children_user + after.children_system - before.children_user - before.children_system
            taken.append([ended.seconds, used, len(ended.stdout), 0])
        report(count, "status", taken)
    finally:
        docker("exec", dev, "sh", "-c", "kill $(cat /tmp/pid)", check=False)


def in_dev(dev: str, verb: list[str]) -> list[float]:
    """Wall and CPU seconds and the bytes of the answer."""
    found: list[float] = json.loads(docker("exec", dev, "/opt/drydock/with-env", "python", "-c", MEASURE, *verb))
    assert found[3] in (0, 1), found
    return found


def report(count: int, verb: str, taken: list[list[float]]) -> None:
    """One line."""
    wall, cpu, size = (statistics.median(one[part] for one in taken) for part in range(3))
    print(f"{count:>5}  {verb:<12} {wall:7.2f} {cpu:7.2f} {size / 1024:11.1f}", flush=True)


if __name__ == "__main__":
    main()
    sys.exit(0)
