"""One rank has longer answers to score; the others wait for it in each step, and it comes each time.

---
ranks: 3
needs: [torch]
state: slow
accept: [none, straggler, user-code]
"""

import torch
import torch.distributed as dist


def tokenize(text):
    return [hash(word) % 50_000 for word in text.split()]


def pad(rows, length=64):
    return [(row + [0] * length)[:length] for row in rows]


def prepare(rows):
    prepared = []
    for number in range(rows):
        prepared.append(tokenize(f"answer {number} " * 200))
        pad(prepared[-4:])
    return prepared


dist.init_process_group("gloo")
for step in range(1_000_000_000):
    if step == 1:
        print("ready", flush=True)
    prepare(20_000 if dist.get_rank() == 2 else 10)
    dist.all_reduce(torch.ones(100))
