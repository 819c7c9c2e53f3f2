"""Two pipeline stages each wait for the other's tensor before they send their own.

---
ranks: 2
needs: [torch]
state: hung
accept: [p2p-order]
tie: [size-mismatch]
laggards: []
quick: true
"""

import os

import torch
import torch.distributed as dist


def exchange(peer):
    activations, gradients = torch.ones(64), torch.empty(64)
    dist.recv(gradients, src=peer)
    dist.send(activations, dst=peer)


dist.init_process_group("gloo")
print("ready", flush=True)
exchange(1 - int(os.environ["RANK"]))
