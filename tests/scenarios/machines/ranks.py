"""One actor on each machine that waits for ever, or at a breakpoint; says "ready" when all of them do."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@ray.remote(num_cpus=0)
class Rank:
    """Waits for what never comes."""

    def __init__(self, rank: int) -> None:
        os.environ["RANK"] = str(rank)
        self.rank = rank

    def ready(self) -> int:
        """Its number."""
        return self.rank

    def wait_for_weights(self) -> None:
        """For ever."""
        threading.Event().wait()

    def stop_here(self) -> int:
        """At a breakpoint."""
        breakpoint()
        return self.rank


def main() -> None:
    """One actor a node."""
    ray.init(log_to_driver=False, logging_level="ERROR")
    alive = sorted((node for node in ray.nodes() if node["Alive"]), key=lambda node: node["NodeManagerAddress"])
    actor: Any = Rank
    ranks = [
        actor.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(number)
        for number, node in enumerate(alive)
    ]
    ray.get([rank.ready.remote() for rank in ranks])
    calls = [getattr(rank, sys.argv[1]).remote() for rank in ranks]
    print("ready", len(calls), flush=True)
    ray.wait(calls, num_returns=len(calls))


if __name__ == "__main__":
    main()
