"""One actor on each machine that waits for ever, at a breakpoint, or gets on; says "ready" when all of them do.

usage: ranks.py METHOD     a method of `Rank` that is called on all of them; what they return is printed
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import urllib.request
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@ray.remote(num_cpus=0)
class Rank:
    """Waits for what never comes."""

    def __init__(self, rank: int) -> None:
        os.environ["RANK"] = str(rank)
        self.rank = rank
        self.steps = 0

    def ready(self) -> int:
        """Its number."""
        return self.rank

    def wait_for_weights(self) -> None:
        """For ever."""
        threading.Event().wait()

    def gets_on(self) -> None:
        """For ever, a step at a time."""
        while True:
            self.step()
            time.sleep(0.2)

    def step(self) -> None:
        """Called anew each time: before Python 3.12 a log point isn't seen by a call that is under way."""
        self.steps += 1

    def asks_the_server(self) -> str:
        """One word of the stack's own model server, by what an agent finds in its environment."""
        request = urllib.request.Request(
            f"{os.environ['OPENAI_BASE_URL']}/chat/completions",
            json.dumps(
                {
                    "model": os.environ["OPENAI_MODEL"],
                    "messages": [{"role": "user", "content": "Say hello."}],
                    "max_tokens": 2,
                }
            ).encode(),
            {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return f"{ray.util.get_node_ip_address()} was answered {answer.status}"

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
    # One that dies with its machine doesn't end the others.
    ray.wait(calls, num_returns=len(calls))
    print(*ray.get(calls), sep="\n", flush=True)


if __name__ == "__main__":
    main()
