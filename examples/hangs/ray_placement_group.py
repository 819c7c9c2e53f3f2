"""A placement group asks for GPUs on a machine without, and its creation is waited for.

---
needs: [ray]
state: hung
accept: [ray-resources]
tie: [ray-wait, dead-peer]
laggards: []
"""

import os

import ray
from ray.util.placement_group import placement_group


def create_resource_pool():
    pool = placement_group([{"CPU": 1, "GPU": 1}] * 2, strategy="STRICT_PACK")
    ray.get(pool.ready())
    return pool


ray.init(num_cpus=2, include_dashboard=False, _temp_dir=os.environ["HANG_FOLDER"])
print("ready", flush=True)
create_resource_pool()
