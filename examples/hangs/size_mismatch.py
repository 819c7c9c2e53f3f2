"""The stages of a pipeline don't agree on the size of an activation.

The sender hands on fewer elements than the receiver waits for, in one piece too little of each.

---
ranks: 2
needs: [torch]
state: hung
accept: [size-mismatch, p2p-order]
tie: [network, uneven-steps]
laggards: []
"""

import torch
import torch.distributed as dist

PIECE = 1000


def receive(rank_below, tokens):
    activations = [torch.empty(PIECE) for _ in range(tokens // PIECE)]
    for piece in activations:
        dist.recv(piece, src=rank_below)
    return torch.cat(activations)


def send(rank_above, activations):
    for piece in activations.split(PIECE):
        dist.send(piece, dst=rank_above)


dist.init_process_group("gloo")
print("ready", flush=True)
if dist.get_rank() == 0:
    send(1, torch.ones(7 * PIECE))
    receive(1, 8 * PIECE)
else:
    send(0, receive(0, 8 * PIECE))
