"""Micro-batches are packed by tokens, and one rank packs its batch into fewer of them.

Gradients are reduced after each micro-batch; a rank with long answers has more of them.

---
ranks: 2
needs: [torch]
state: hung
accept: [uneven-steps]
tie: [collective-mismatch]
laggards: [rank0]
"""

import os

import torch
import torch.distributed as dist


def pack(lengths, most=100):
    packed, room = [[]], most
    for length in lengths:
        if length > room:
            packed.append([])
            room = most
        packed[-1].append(length)
        room -= length
    return packed


def forward_backward(model, micro_batch):
    model(torch.randn(len(micro_batch), 16)).sum().backward()


def log_metrics(step):
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, {"step": step})


dist.init_process_group("gloo")
lengths = [20] * 5 if os.environ["RANK"] == "0" else [60] * 5
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 1))
print("ready", flush=True)
for step in range(2):
    for micro_batch in pack(lengths):
        forward_backward(model, micro_batch)
    log_metrics(step)
