"""A download was killed while it held its lock; where locks are files, the file is still there.

It was another pod on the same shared folder, so nobody here can tell that its process is gone. Rank 0 wants to
download again and waits for the lock, the others wait for rank 0. As in huggingface/huggingface_hub#3944.

---
ranks: 3
needs: [torch]
state: hung
accept: [stale-lock]
tie: [straggler]
laggards: [rank0]
"""

import os
import subprocess
import sys

import torch
import torch.distributed as dist
from filelock import SoftFileLock

FOLDER = os.environ["HANG_FOLDER"]
KILLED = f"""
import os, socket
socket.gethostname = lambda: "trainer-7d9f"  # of the pod that is gone
from filelock import SoftFileLock
lock = SoftFileLock({FOLDER + "/weights.pt.lock"!r})
lock.acquire()
os.kill(os.getpid(), 9)
"""


def fetch(name):
    path = os.path.join(FOLDER, name)
    with SoftFileLock(path + ".lock"):
        if not os.path.exists(path):
            torch.save(torch.zeros(4), path)
    return path


def load():
    if dist.get_rank() == 0:
        fetch("weights.pt")
    dist.barrier()
    return torch.load(os.path.join(FOLDER, "weights.pt"))


dist.init_process_group("gloo")
if dist.get_rank() == 0:
    subprocess.run([sys.executable, "-c", KILLED], check=False)
print("ready", flush=True)
load()
