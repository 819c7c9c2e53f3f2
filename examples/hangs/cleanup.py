"""Rank 1 fails, and its clean-up waits for ranks that still train.

A context manager ends with a barrier, so that all ranks leave together. Rank 1 meets a bad batch; its exception can't
get past the barrier, and nobody ever sees it.

---
ranks: 3
needs: [torch]
state: hung
accept: [cleanup]
tie: [exception-swallowed]
laggards: [rank1]
quick: true
"""

import os

import torch
import torch.distributed as dist


class Trainer:
    def __enter__(self):
        dist.init_process_group("gloo")
        return self

    def __exit__(self, *error):
        print("ready", flush=True)
        dist.barrier()
        dist.destroy_process_group()

    def train_step(self):
        loss = torch.ones(4)
        dist.all_reduce(loss)
        return loss


with Trainer() as trainer:
    for step in range(6):
        if step == 3:
            if os.environ["RANK"] == "1":
                raise RuntimeError("bad batch")
            print("ready", flush=True)
        trainer.train_step()
