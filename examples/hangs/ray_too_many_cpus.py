"""A task asks for more CPUs than the cluster has, and the driver waits for its result.

---
needs: [ray]
state: hung
accept: [ray-resources]
tie: [ray-wait, dead-peer]
laggards: []
"""

import os

import ray


@ray.remote(num_cpus=16)
def train():
    return 1


ray.init(num_cpus=2, include_dashboard=False, _temp_dir=os.environ["HANG_FOLDER"])
print("ready", flush=True)
ray.get(train.remote())
