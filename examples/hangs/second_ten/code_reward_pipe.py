"""A solution under test prints more than a pipe holds, and the sandbox waits for its end before it reads.

The code reward runs every candidate in a process of its own with a limit on CPU time. Something that is blocked on a
full pipe uses none, so the limit never strikes; the other ranks wait for this rank's rewards.
https://github.com/bytedance/SandboxFusion/issues/53, https://github.com/multikernel/sandlock/issues/149

---
ranks: 3
needs: [torch]
state: hung
accept: [user-code]
laggards: [rank1]
"""

import datetime
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist

GOOD = "n = int(input())\nprint(sum(range(n)))\n"
CHATTY = "n = int(input())\nfor i in range(40000):\n    print('debug: partial sum', i)\nprint(sum(range(n)))\n"
CASES = [("3", "3"), ("5", "10")]


class SandboxResult:
    def __init__(self, status, stdout):
        self.status, self.stdout = status, stdout


def limit_resources():
    resource.setrlimit(resource.RLIMIT_CPU, (10, 10))


def run_command_bare(command, stdin):
    """Run one command under the limits (sandbox/runners/base.py)."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit_resources
    )
    process.stdin.write(stdin.encode())
    process.stdin.close()
    code = process.wait()
    return SandboxResult("Finished" if code == 0 else "Failed", process.stdout.read().decode())


def check_correctness(solution, cases):
    passed = 0
    for stdin, expected in cases:
        result = run_command_bare([sys.executable, "-S", "-c", solution], stdin)
        passed += result.status == "Finished" and result.stdout.strip() == expected
    return passed / len(cases)


class PrimeRewardManager:
    def __init__(self, num_workers=2):
        self.executor = ThreadPoolExecutor(num_workers, thread_name_prefix="reward")

    def compute_score(self, solution):
        try:
            return check_correctness(solution, CASES)
        except OSError:
            return 0.0

    def __call__(self, solutions):
        futures = [self.executor.submit(self.compute_score, solution) for solution in solutions]
        return torch.tensor([future.result() for future in futures])


class GRPOTrainer:
    def __init__(self):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.reward_fn = PrimeRewardManager()

    def generate_rollouts(self, step):
        time.sleep(0.5)
        return [GOOD, CHATTY if step == 3 and self.rank == 1 else GOOD]

    def gather_rewards(self, rewards):
        gathered = [torch.empty_like(rewards) for _ in range(self.world)]
        dist.all_gather(gathered, rewards)
        return torch.cat(gathered)

    def compute_advantages(self, rewards):
        everybody = self.gather_rewards(rewards)
        return (rewards - everybody.mean()) / (everybody.std() + 1e-6)

    def training_step(self, step):
        solutions = self.generate_rollouts(step)
        if step == 3:
            print("ready", flush=True)
        rewards = self.reward_fn(solutions)
        advantages = self.compute_advantages(rewards)
        print(f"rank {self.rank} step {step} reward {rewards.mean():.2f} adv {advantages.abs().max():.2f}", flush=True)

    def train(self):
        for step in range(100):
            self.training_step(step)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(hours=6))
    GRPOTrainer().train()


if __name__ == "__main__":
    main()
