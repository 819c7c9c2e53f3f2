"""The driver waits for an actor that waits for samples which nobody makes any more.

---
needs: [ray]
state: hung
accept: [ray-wait]
tie: [straggler, rpc-queue]
laggards: [Collector]
"""

import os
import queue

import ray


@ray.remote(num_cpus=0)
class Collector:
    def __init__(self):
        self.samples = queue.Queue()

    def add(self, sample):
        self.samples.put(sample)

    def batch(self, size):
        return [self.samples.get() for _ in range(size)]


ray.init(num_cpus=2, include_dashboard=False, _temp_dir=os.environ["HANG_FOLDER"])
collector = Collector.remote()
ray.get([collector.add.remote(number) for number in range(7)])
print("ready", flush=True)
print(ray.get(collector.batch.remote(8)))
