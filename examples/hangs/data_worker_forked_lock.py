"""A data worker was forked while a lock was held, and waits for it for ever.

---
ranks: 2
needs: [torch]
state: hung
accept: [data-worker]
laggards: [rank1]
quick: true
"""

import threading

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

cache_lock = threading.Lock()


class Prompts:
    def __len__(self):
        return 32

    def __getitem__(self, index):
        with cache_lock:
            return torch.ones(4) * index


def fill_cache():
    cache_lock.acquire()
    threading.Event().wait()


dist.init_process_group("gloo")
print("ready", flush=True)
if dist.get_rank() == 1:
    threading.Thread(target=fill_cache, daemon=True).start()
    while not cache_lock.locked():
        pass
for batch in DataLoader(Prompts(), batch_size=4, num_workers=2, multiprocessing_context="fork"):
    dist.all_reduce(batch)
