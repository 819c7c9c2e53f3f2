"""Rank 2 waits for the lock of a model cache, which a download that lives but gets nothing more has; the others wait.

The lock is the kernel's, so it goes with its holder: removing the file would free nobody.

---
processes: [downloader]
ranks: 3
needs: [torch]
state: hung
accept: [stale-lock]
laggards: [rank2]
"""

import fcntl
import os
import socket
import sys

import torch.distributed as dist

LOCK = os.path.join(os.environ["HANG_FOLDER"], "model.lock")


def download():
    with open(LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ours, _peer = socket.socketpair()
        print("ready", flush=True)
        ours.recv(1)


def load():
    with open(LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return 1


def main():
    dist.init_process_group("gloo")
    print("ready", flush=True)
    if dist.get_rank() == 2:
        load()
    dist.barrier()


if __name__ == "__main__":
    download() if "downloader" in sys.argv else main()
