"""Scoring takes minutes, but gets on: one answer after another.

---
ranks: 2
needs: [torch]
state: slow
accept: [none, user-code, straggler]
"""

import difflib

import torch
import torch.distributed as dist


def similarity(answer, reference):
    return difflib.SequenceMatcher(None, answer, reference).ratio()


def reward(answers):
    scores = []
    for answer in answers:
        words = answer.split()
        scores.append(similarity(answer, " ".join(sorted(words))))
    return torch.tensor(scores).mean()


dist.init_process_group("gloo")
print("ready", flush=True)
if dist.get_rank() == 0:
    while True:
        reward([f"the answer number {number} is {number * 7}" * 3 for number in range(50)])
dist.all_reduce(torch.ones(1))
