"""Rank 0 makes a group for evaluation that nobody else makes.

`new_group` has to be called by all ranks, also by those that won't be in it.

---
ranks: 3
needs: [torch]
state: hung
accept: [pg-create, rank-conditional]
tie: [collective-mismatch]
laggards: [rank0]
"""

import torch
import torch.distributed as dist


def evaluation_group():
    if dist.get_rank() == 0:
        return dist.new_group([0, 1, 2])
    return None


def train_step():
    dist.all_reduce(torch.ones(10))


dist.init_process_group("gloo")
print("ready", flush=True)
group = evaluation_group()
train_step()
