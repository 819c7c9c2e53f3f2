"""Code that a model wrote is run by rank 1 in a process without a time-out, and waits for an event that nobody sets.

---
ranks: 3
needs: [torch]
state: hung
accept: [user-code]
tie: [straggler]
laggards: [rank1]
"""

import subprocess
import sys

import torch
import torch.distributed as dist


def run_code(source):
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True).stdout


def reward(sample, step):
    if dist.get_rank() == 1 and step == 2:
        sample = "import threading\nthreading.Event().wait()"
    return float(len(run_code(sample)))


def train():
    dist.init_process_group("gloo")
    for step in range(10_000):
        if step == 2:
            print("ready", flush=True)
        rewards = sum(reward(f"print({i})", step) for i in range(2))
        gradient = torch.full((1000,), rewards)
        dist.all_reduce(gradient)
        print(f"rank {dist.get_rank()} step {step} reward {rewards}", flush=True)


if __name__ == "__main__":
    train()
