"""Rank 0 normalises the advantages of a whole epoch, some 40 s in products of matrices, and rank 1 waits for it.

Nothing hangs: the collective ends as soon as rank 0 comes.

---
ranks: 2
needs: [torch]
computes: [rank0]
state: slow
accept: [none, straggler, python-loop]
laggards: [rank0]
"""

import torch
import torch.distributed as dist


def whiten(n):
    a = torch.randn(n, n)
    for _ in range(700):
        a = torch.tanh(a @ a)
    return a


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    dist.barrier()
    print("ready", flush=True)
    for step in range(1000):
        if dist.get_rank() == 0:
            whiten(1700)
        dist.all_reduce(torch.ones(3))
        print("rank", dist.get_rank(), "step", step, flush=True)


if __name__ == "__main__":
    main()
