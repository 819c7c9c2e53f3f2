"""Metrics are reduced in the order of a dictionary, and the orders differ.

Rank 1 saw a long answer first, so "length" is the first key of its metrics, and on rank 0 it is the last. Lengths are
gathered, everything else is summed.

---
ranks: 2
needs: [torch]
state: hung
accept: [collective-mismatch]
tie: [uneven-steps, rank-conditional]
laggards: []
"""

import os

import torch
import torch.distributed as dist


def collect(metrics):
    found = {}
    for name, value in metrics.items():
        if name == "length":
            everyone = [torch.zeros(1) for _ in range(dist.get_world_size())]
            dist.all_gather(everyone, value)
            found[name] = torch.cat(everyone)
        else:
            dist.reduce(value, dst=0 if name == "reward" else 1)
            found[name] = value
    return found


dist.init_process_group("gloo")
if os.environ["RANK"] == "0":
    metrics = {"entropy": torch.ones(1), "reward": torch.ones(1), "length": torch.ones(1)}
else:
    metrics = {"length": torch.ones(1), "reward": torch.ones(1), "entropy": torch.ones(1)}
print("ready", flush=True)
collect(metrics)
