"""One rank has a batch less and is out of the loop while the others reduce.

The sampler doesn't drop the last incomplete batch.

---
ranks: 3
needs: [torch]
state: hung
accept: [uneven-steps]
tie: [collective-mismatch]
laggards: [rank1]
quick: true
"""

import os

import torch
import torch.distributed as dist


def train_step(weights, batch):
    gradients = weights * batch
    dist.all_reduce(gradients)
    weights -= 0.01 * gradients


def train(batches):
    weights = torch.ones(32)
    for number in range(batches):
        if number == batches - 1:
            print("ready", flush=True)
        train_step(weights, number)
    return weights


dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
train(7 if rank == 1 else 8)
print("ready", flush=True)
dist.barrier()
