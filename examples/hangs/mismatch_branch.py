"""A branch that only one rank takes ends in another collective.

The reward model's version is newer on rank 0, so rank 0 hands its weights out while the others reduce gradients.

---
ranks: 3
needs: [torch]
state: hung
accept: [collective-mismatch]
tie: [rank-conditional]
laggards: [rank0]
quick: true
"""

import os

import torch
import torch.distributed as dist


def sync_weights(weights):
    dist.broadcast(weights, src=1)


def reduce_gradients(gradients):
    dist.all_reduce(gradients)


dist.init_process_group("gloo")
version = 2 if os.environ["RANK"] == "0" else 1
print("ready", flush=True)
for _ in range(3):
    if version > 1:
        sync_weights(torch.ones(16))
    else:
        reduce_gradients(torch.ones(16))
