"""One rank waits for the lock of a download cache that another program holds and doesn't give back.

---
processes: [holder]
ranks: 2
needs: [torch]
state: hung
accept: [stale-lock]
tie: [straggler]
laggards: [rank1]
"""

import fcntl
import os
import sys
import threading

PATH = os.path.join(os.environ["HANG_FOLDER"], "weights.lock")


def download():
    with open(PATH, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


def hold():
    with open(PATH, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        print("ready", flush=True)
        threading.Event().wait()


def train():
    import torch.distributed as dist

    dist.init_process_group("gloo")
    print("ready", flush=True)
    if dist.get_rank() == 1:
        download()
    dist.barrier()


hold() if "holder" in sys.argv else train()
