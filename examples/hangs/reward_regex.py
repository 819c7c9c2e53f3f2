"""A regular expression in a reward function backtracks without end, and the other ranks wait.

---
ranks: 2
needs: [torch]
computes: [rank0]
state: hung
accept: [user-code]
tie: [python-loop, straggler, gil-held]
laggards: [rank0]
quick: true
"""

import re

import torch
import torch.distributed as dist

BOXED = re.compile(r"^(\w+\s?)*\$\Z")


def reward(answer):
    return 1.0 if BOXED.match(answer) else 0.0


dist.init_process_group("gloo")
rewards = torch.zeros(2)
print("ready", flush=True)
if dist.get_rank() == 0:
    rewards[0] = reward("the answer is that " * 12 + "!")
dist.broadcast(rewards, src=0)
