"""One rank copies its shard of the checkpoint to remote storage, and the copy doesn't end.

---
ranks: 4
needs: [torch]
state: hung
accept: [checkpoint-skew]
tie: [straggler]
laggards: [rank2]
"""

import subprocess

import torch
import torch.distributed as dist


def upload_checkpoint(path):
    subprocess.run(["sh", "-c", "sleep 1000000"], check=True)


def save(step):
    if dist.get_rank() == 2:
        upload_checkpoint(f"step-{step}")


dist.init_process_group("gloo")
print("ready", flush=True)
for step in range(3):
    dist.all_reduce(torch.ones(4))
    save(step)
