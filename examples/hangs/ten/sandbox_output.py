"""A code reward waits for a program that waits for somebody to read what it prints.

The sandbox starts the generated program with its output in a pipe, waits for its end and then reads. A program that
prints more than the pipe holds never ends. The samples are scored by threads, so that the main thread only collects
results; the other ranks have theirs and gather the rewards.

---
ranks: 3
needs: [torch]
state: hung
accept: [user-code]
tie: [straggler]
laggards: [rank2]
"""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import torch
import torch.distributed as dist

TASKS = [("sum the numbers from 1 to 100", "5050"), ("how many primes are below 50", "15")]
GOOD = "print(sum(range(1, 101)))"
WRONG = "print(len([n for n in range(50) if n % 2]))"
CHATTY = """
for n in range(20000):
    print("checking", n)
print(15)
"""


def sample(rank, step, task):
    """What the policy would have written."""
    if task == 0:
        return GOOD
    return CHATTY if rank == 2 and step == 2 else WRONG


class Sandbox:
    def run(self, code):
        proc = subprocess.Popen(
            [sys.executable, "-I", "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        status = proc.wait()
        output = proc.stdout.read()
        proc.stdout.close()
        return status, output


class CodeReward:
    def __init__(self, workers=2):
        self.sandbox = Sandbox()
        self.pool = ThreadPoolExecutor(workers, thread_name_prefix="reward")

    def score(self, code, expected):
        status, output = self.sandbox.run(code)
        if status != 0 or not output.strip():
            return -1.0
        return float(output.strip().splitlines()[-1] == expected)

    def __call__(self, codes):
        futures = [self.pool.submit(self.score, code, gold) for code, (_, gold) in zip(codes, TASKS, strict=True)]
        return torch.tensor([f.result() for f in futures])


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=12))
    rank, world = dist.get_rank(), dist.get_world_size()
    reward = CodeReward()
    for step in range(1000):
        if step == 2:
            print("ready", flush=True)
        mine = reward([sample(rank, step, task) for task in range(len(TASKS))])
        everyone = [torch.empty_like(mine) for _ in range(world)]
        dist.all_gather(everyone, mine)
        stacked = torch.stack(everyone)
        advantage = (mine - stacked.mean()) / (stacked.std() + 1e-6)
        print(f"rank {rank} step {step} advantage {advantage.tolist()}", flush=True)


if __name__ == "__main__":
    main()
