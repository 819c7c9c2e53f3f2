"""A rank leaves early, and its exit handler waits for the others.

`atexit` closes the run with a barrier. Rank 2 finds nothing to do in its shard and calls `sys.exit()`.

---
ranks: 3
needs: [torch]
state: hung
accept: [cleanup]
tie: [uneven-steps, exception-swallowed, collective-mismatch]
laggards: [rank2]
"""

import atexit
import os
import sys

import torch
import torch.distributed as dist


def close_run():
    print("ready", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def shard(rank):
    return [] if rank == 2 else [torch.ones(8)] * 5


dist.init_process_group("gloo")
atexit.register(close_run)
batches = shard(int(os.environ["RANK"]))
if not batches:
    sys.exit("nothing to do in this shard")
for batch in batches:
    print("ready", flush=True)
    dist.all_reduce(batch)
