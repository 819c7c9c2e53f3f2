"""Rejection sampling on one rank never accepts.

---
ranks: 2
needs: [torch]
computes: [rank1]
state: hung
accept: [python-loop]
tie: [straggler]
laggards: [rank1]
quick: true
"""

import random

import torch
import torch.distributed as dist


def sample_prompt(lengths, limit):
    while True:
        length = random.choice(lengths)
        if length <= limit:
            return length


dist.init_process_group("gloo")
print("ready", flush=True)
sample_prompt([200, 300, 400], 100 if dist.get_rank() == 1 else 500)
dist.all_reduce(torch.ones(1))
