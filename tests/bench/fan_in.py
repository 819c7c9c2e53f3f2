"""What the machine that collects a dump pays for each node: unpacking, naming, reading and deciding.

A thousand nodes of eight ranks answer with the very bytes that ``harness sample`` would write; only the way to them
(ssh, srun, Ray) is left out. Measured in CPU seconds of a process of its own.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from multiprocessing import get_context

from harness.hang.collect import collect
from harness.hang.decide import diagnose
from harness.processes.sampling.model import NodeAnswer, ProcessEntry, SampleEntry, SampleRequest, pack, unpack
from tests.bench.many_ranks import FRAMES, THREADS, stacks

NODES = tuple(int(nodes) for nodes in os.environ.get("BENCH_NODES", "100,1000").split(","))
RANKS, GROUPS = 8, 12
GOAL_SECONDS, GOAL_GIBIBYTES = 60.0, 4.0


def run() -> bool:
    """Measure and print; whether the goals are met."""
    met = True
    for nodes in NODES:
        with get_context("spawn").Pool(1) as pool:
            packing, bytes_each, cpu, gibibytes = pool.apply(_measure, (nodes,))
        met = met and cpu <= GOAL_SECONDS and gibibytes <= GOAL_GIBIBYTES
        print(
            f"{nodes} nodes × {RANKS} ranks, {THREADS} threads of {FRAMES} frames: a node packs in "
            f"{packing * 1000:.0f} ms of CPU and sends {bytes_each / 1024:.0f} KiB; collecting and deciding take "
            f"{cpu:.1f} s of CPU ({cpu / nodes * 1000:.1f} ms a node), {gibibytes:.2f} GiB "
            f"(goal ≤ {GOAL_SECONDS:g} s, ≤ {GOAL_GIBIBYTES:g} GiB)"
        )
    return met


class _Node:
    """A way in whose answer has arrived."""

    def __init__(self, number: int, packed: bytes) -> None:
        self.name, self._packed = f"node{number}", packed

    def sample(self, request: SampleRequest, deadline: float) -> NodeAnswer:
        return unpack(self._packed)


def _measure(nodes: int) -> tuple[float, float, float, float]:
    """CPU seconds and bytes of one node's packing, CPU seconds of collecting and deciding, peak memory in GiB."""
    began = time.process_time()
    making = 0.0
    ways = []
    for number in range(nodes):
        started = time.process_time()
        answer = _answer(number, nodes)
        making += time.process_time() - started
        ways.append(_Node(number, pack(answer)))
    packing = (time.process_time() - began - making) / nodes
    size = sum(len(way._packed) for way in ways) / nodes
    before = resource.getrusage(resource.RUSAGE_SELF)
    collected = collect(ways, SampleRequest(samples=2, gap_seconds=0))
    verdict = diagnose(collected.dump)
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert verdict.laggards == [f"rank{nodes * RANKS - 1}"], verdict.laggards
    assert not collected.manifest.unreachable
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return packing, size, cpu, after.ru_maxrss / 2**20


def _answer(number: int, nodes: int) -> NodeAnswer:
    """Eight ranks in a collective, the last of the last node in its own code; nobody ran between the two samples."""
    answer = NodeAnswer(host=f"node{number}", boot_id=f"boot{number}", pid_namespace=7)
    for local in range(RANKS):
        rank, pid = number * RANKS + local, 10_000 + 7 * (number * RANKS + local)
        late = rank == nodes * RANKS - 1
        name = f"{pid}.json"
        answer.dumps[name] = stacks(GROUPS - 1 if late else 0, pid).encode()
        samples = [SampleEntry(file=name, state="S", cpu_seconds=9.0), SampleEntry(file=name, way="unmoved", at=2.0)]
        samples[1].state, samples[1].cpu_seconds = "S", 9.0
        answer.processes.append(
            ProcessEntry(
                role="rank", rank=rank, local_rank=local, world_size=nodes * RANKS, local_world_size=RANKS, pid=pid,
                own_pid=pid, start_ticks=5, pid_namespace=7, job="10.0.0.1:29500", host=answer.host, state="S",
                command="python train.py --config large.yaml", samples=samples,
            )
        )  # fmt: skip
    return answer


if __name__ == "__main__":
    sys.exit(0 if run() else 1)
