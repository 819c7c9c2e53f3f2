"""Each rank makes the groups with its left and its right neighbour, and each waits for another one.

With `use_local_synchronization` only a group's members meet to make it. In a ring, left first means: everybody waits.

---
ranks: 3
needs: [torch]
state: hung
accept: [pg-create]
tie: [cross-group]
laggards: []
"""

import torch.distributed as dist


def make_groups(rank, size):
    left = dist.new_group(sorted([rank, (rank - 1) % size]), use_local_synchronization=True)
    right = dist.new_group(sorted([rank, (rank + 1) % size]), use_local_synchronization=True)
    return left, right


dist.init_process_group("gloo")
print("ready", flush=True)
make_groups(dist.get_rank(), dist.get_world_size())
