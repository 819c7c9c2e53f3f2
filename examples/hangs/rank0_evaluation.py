"""Rank 0 alone evaluates, and evaluating gathers from everybody.

---
ranks: 4
needs: [torch]
state: hung
accept: [rank-conditional]
tie: [collective-mismatch]
laggards: [rank0]
quick: true
"""

import os

import torch
import torch.distributed as dist


def train_step():
    dist.all_reduce(torch.ones(64))


def evaluate():
    everyone = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, torch.ones(1))
    return torch.cat(everyone).mean()


dist.init_process_group("gloo")
for step in range(10):
    train_step()
    if step == 5:
        print("ready", flush=True)
        if os.environ["RANK"] == "0":
            print("accuracy", evaluate())
