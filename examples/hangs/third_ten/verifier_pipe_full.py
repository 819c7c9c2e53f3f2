"""Rank 0 waits for its verifier to end before it reads what that prints, and the pipe between them is full.

Outputs of tests are short for a while; the first long one stops the verifier in its write, and the rank in wait().

---
ranks: 2
needs: [torch]
state: hung
accept: [user-code]
tie: [straggler]
laggards: [rank0]
"""

import subprocess
import sys

import torch
import torch.distributed as dist


def verify(n):
    child = subprocess.Popen([sys.executable, "-c", f"print('x' * {n})"], stdout=subprocess.PIPE)
    child.wait()
    return len(child.stdout.read())


def main():
    dist.init_process_group("gloo")
    for step in range(100):
        if step == 4:
            print("ready", flush=True)
        length = verify(10 ** (step + 1)) if dist.get_rank() == 0 else 0
        total = torch.tensor(float(length))
        dist.all_reduce(total)
        print("rank", dist.get_rank(), "step", step, flush=True)


if __name__ == "__main__":
    main()
