"""An extension sleeps in C and keeps the interpreter's lock.

---
ranks: 2
needs: [torch]
state: hung
accept: [gil-held]
laggards: [rank0]
quick: true
"""

import ctypes

import torch
import torch.distributed as dist


def wait_for_device():
    ctypes.PyDLL(None).sleep(1_000_000)  # PyDLL keeps the lock, CDLL would let it go


dist.init_process_group("gloo")
print("ready", flush=True)
if dist.get_rank() == 0:
    wait_for_device()
dist.all_reduce(torch.ones(1))
