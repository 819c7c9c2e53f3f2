"""Every stage of a ring sends to the next before it receives, and no send returns before it is received.

---
ranks: 4
needs: [torch]
state: hung
accept: [p2p-order]
tie: [size-mismatch]
laggards: []
"""

import torch
import torch.distributed as dist


def pass_on(rank, size):
    block, incoming = torch.ones(1_000_000), torch.empty(1_000_000)
    for _ in range(size):
        dist.send(block, dst=(rank + 1) % size)
        dist.recv(incoming, src=(rank - 1) % size)
        block = incoming


dist.init_process_group("gloo")
print("ready", flush=True)
pass_on(dist.get_rank(), dist.get_world_size())
