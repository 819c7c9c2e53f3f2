"""Rank 0 writes a large checkpoint, file after file, while the others wait at the barrier.

---
ranks: 3
needs: [torch]
state: slow
accept: [none, checkpoint-skew, straggler]
quick: true
"""

import os

import torch
import torch.distributed as dist


def save_checkpoint(folder):
    for number in range(1_000_000_000):
        with open(os.path.join(folder, f"shard-{number % 4}.pt"), "wb") as file:
            torch.save({"weights": torch.ones(2_000_000)}, file)
            file.flush()
            os.fsync(file.fileno())


dist.init_process_group("gloo")
print("ready", flush=True)
if dist.get_rank() == 0:
    save_checkpoint(os.environ["HANG_FOLDER"])
dist.barrier()
