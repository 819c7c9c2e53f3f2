"""A truncation that no longer shortens anything is repeated until it fits.

---
ranks: 3
needs: [torch]
computes: [rank0]
state: hung
accept: [python-loop]
tie: [straggler]
laggards: [rank0]
"""

import torch
import torch.distributed as dist


def shorten(words):
    return words[: max(len(words) - 1, 12)]


def fit(prompt, limit):
    words = prompt.split()
    while len(words) > limit:
        words = shorten(words)
    return words


dist.init_process_group("gloo")
print("ready", flush=True)
fit("a word " * 20, 10 if dist.get_rank() == 0 else 64)
dist.broadcast(torch.ones(4), src=0)
