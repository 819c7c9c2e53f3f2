"""A rank still loads its weights, shard after shard, and the others wait for it to join.

---
ranks: 2
needs: [torch]
state: slow
accept: [none, init, straggler]
quick: true
"""

import io
import os

import torch
import torch.distributed as dist


def load_shard(data):
    return torch.load(io.BytesIO(data), weights_only=True)


def load_weights(path):
    weights = {}
    for _ in range(1_000_000):
        with open(path, "rb") as file:
            data = file.read()
        for name, value in load_shard(data).items():
            weights[name] = value.to(torch.bfloat16).float().mean()
    return weights


path = os.path.join(os.environ["HANG_FOLDER"], f"shard-{os.environ['RANK']}.pt")
if os.environ["RANK"] == "1":
    torch.save({f"layer{number}": torch.ones(300_000) for number in range(16)}, path)
    print("ready", flush=True)
    load_weights(path)
print("ready", flush=True)
dist.init_process_group("gloo")
