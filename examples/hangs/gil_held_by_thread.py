"""A thread that prefetches holds the interpreter's lock, and so the rank's main thread can't go on.

---
ranks: 2
needs: [torch]
state: hung
accept: [gil-held]
laggards: [rank1]
"""

import ctypes
import threading
import time

import torch
import torch.distributed as dist


def prefetch():
    ctypes.PyDLL(None).pause()


dist.init_process_group("gloo")
print("ready", flush=True)
if dist.get_rank() == 1:
    threading.Thread(target=prefetch, name="prefetch", daemon=True).start()
    time.sleep(0.5)
for _ in range(10):
    dist.all_reduce(torch.ones(1))
