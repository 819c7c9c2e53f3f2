"""Only the main process saves, and saving gathers the shards of all ranks.

The others wait at the barrier behind it.

---
ranks: 3
needs: [torch]
state: hung
accept: [rank-conditional]
tie: [collective-mismatch, checkpoint-skew]
laggards: [rank0]
"""

import io
import os

import torch
import torch.distributed as dist


def is_main_process():
    return os.environ["RANK"] == "0"


def full_state(shard):
    parts = [torch.zeros_like(shard) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, shard)
    return torch.cat(parts)


def save_checkpoint(shard):
    if is_main_process():
        torch.save({"weights": full_state(shard)}, io.BytesIO())
    dist.barrier()


dist.init_process_group("gloo")
print("ready", flush=True)
save_checkpoint(torch.ones(1000))
