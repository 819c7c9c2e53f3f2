"""An asynchronous actor awaits its worker's result while another of its methods is in a regular expression without end.

The expression keeps the interpreter, so the result that has long been there can't be taken. As in
ray-project/ray#41431.

---
needs: [ray]
state: hung
accept: [python-loop, gil-held]
tie: [ray-wait, straggler, user-code]
laggards: [Coordinator]
"""

import asyncio
import os
import re

import ray

LINE = re.compile(r"^(([a-z])+.)+[A-Z]([a-z])+$")


@ray.remote(num_cpus=0)
class Worker:
    def do_something(self, number):
        return number + 1


@ray.remote(num_cpus=0)
class Coordinator:
    def __init__(self, worker):
        self.worker = worker

    async def train(self):
        total = 0
        for number in range(1_000_000):
            total += await self.worker.do_something.remote(number)
            await asyncio.sleep(0)
        return total

    async def matches(self, line):
        return LINE.match(line) is not None


ray.init(num_cpus=2, include_dashboard=False, _temp_dir=os.environ["HANG_FOLDER"])
coordinator = Coordinator.remote(Worker.remote())
ray.get(coordinator.matches.remote("ab Cd"))
training = coordinator.train.remote()
coordinator.matches.remote("a" * 60)
print("ready", flush=True)
ray.get(training)
