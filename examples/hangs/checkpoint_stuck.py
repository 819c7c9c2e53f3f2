"""Rank 0 saves to a file system that takes nothing more, and the others wait at the barrier.

---
ranks: 3
needs: [torch]
state: hung
accept: [checkpoint-skew]
tie: [straggler]
laggards: [rank0]
quick: true
"""

import os

import torch
import torch.distributed as dist


def save_checkpoint(path):
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # the pipe fills up, as a stuck disk does
    with open(path, "wb") as file:
        torch.save({"weights": torch.ones(1_000_000)}, file)
    os.close(reader)


dist.init_process_group("gloo")
print("ready", flush=True)
if dist.get_rank() == 0:
    save_checkpoint(os.path.join(os.environ["HANG_FOLDER"], "step-100.pt"))
dist.barrier()
