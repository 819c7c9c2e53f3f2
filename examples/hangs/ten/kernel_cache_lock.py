"""A rank waits for the lock of its kernel cache, which its own compile worker still holds.

The lock is taken with flock and given back by closing the file. In between the cache starts its compile worker with
fork, and the child keeps the open file for as long as it lives, so the lock is never free again. The first kernel
works for everybody. Rank 1 is the first one to meet a long batch and to need a second kernel.

---
ranks: 3
needs: [torch]
state: hung
accept: [stale-lock]
tie: [compile-skew]
laggards: [rank1]
"""

import fcntl
import multiprocessing
import os
import runpy
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

TEMPLATE = "def scale(x):\n    return x * {factor} / {length}\n"


def build(path, length):
    Path(path).write_text(TEMPLATE.format(factor=length**0.5, length=length))


class KernelCache:
    """One specialised kernel a sequence length, rounded up to a bucket."""

    def __init__(self, root):
        self.root = Path(root)
        self.root.mkdir(parents=True, exist_ok=True)
        self.loaded, self.pool = {}, None

    @contextmanager
    def locked(self):
        with open(self.root / ".lock", "w") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            yield

    def workers(self):
        if self.pool is None:
            self.pool = multiprocessing.get_context("fork").Pool(1)
        return self.pool

    def get(self, length):
        bucket = 1 << (length - 1).bit_length()
        if bucket not in self.loaded:
            path = self.root / f"scale_{bucket}.py"
            with self.locked():
                if not path.exists():
                    self.workers().apply(build, (str(path), bucket))
            self.loaded[bucket] = runpy.run_path(str(path))["scale"]
        return self.loaded[bucket]


def batches(rank):
    """Sorted by length within a shard; only the shard of rank 1 has anything long among the first."""
    for i in range(10_000):
        length = 1500 if rank == 1 and i >= 3 else 700 + 10 * rank
        yield torch.randn(4, length)


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=12))
    rank = dist.get_rank()
    cache = KernelCache(Path(os.environ["HANG_FOLDER"]) / f"kernels-rank{rank}")
    weight = torch.zeros(16)
    for step, batch in enumerate(batches(rank)):
        if step == 3:
            print("ready", flush=True)
        kernel = cache.get(batch.shape[1])
        grad = kernel(batch).mean().expand(16).clone()
        dist.all_reduce(grad)
        weight -= 1e-3 * grad / dist.get_world_size()
        print(f"rank {rank} step {step} length {batch.shape[1]}", flush=True)


if __name__ == "__main__":
    main()
