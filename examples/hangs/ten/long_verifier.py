"""One rank has hard problems: its verifier takes half a minute a step, the others wait, and then all go on.

Proofs are checked one after the other by a small program of their own. The shard of rank 1 is sorted so that the
long ones come together. Nothing is wrong except the balance; a step ends whenever the last check has.

---
ranks: 3
needs: [torch]
state: slow
accept: [none]
tie: [user-code, straggler]
laggards: [rank1]
"""

import subprocess
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

CHECKER = """
import sys, time
depth = int(sys.argv[1])
for _ in range(depth):
    time.sleep(0.1)  # one lemma
print("ok" if depth % 3 else "gap")
"""


class ProofVerifier:
    def __init__(self, limit=120):
        self.limit = limit

    def check(self, depth):
        try:
            proc = subprocess.run(
                [sys.executable, "-I", "-c", CHECKER, str(depth)],
                capture_output=True,
                text=True,
                timeout=self.limit,
            )
        except subprocess.TimeoutExpired:
            return 0.0
        return float(proc.stdout.strip() == "ok")

    def reward(self, depths):
        return torch.tensor([self.check(depth) for depth in depths])


class Trainer:
    def __init__(self):
        dist.init_process_group("gloo", timeout=timedelta(hours=12))
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.verifier = ProofVerifier()
        self.weight = torch.zeros(8)

    def proofs(self):
        """How many lemmas each proof of this rank's batch has."""
        low, high = (60, 100) if self.rank == 1 else (1, 4)
        return torch.randint(low, high, (4,)).tolist()

    def step(self):
        began = time.monotonic()
        reward = self.verifier.reward(self.proofs())
        mine = time.monotonic() - began
        mean = reward.mean()
        dist.all_reduce(mean)
        advantage = reward - mean / self.world
        grad = torch.randn(4, 8).mul(advantage[:, None]).mean(0)
        dist.all_reduce(grad)
        self.weight += 0.1 * grad / self.world
        return mine, time.monotonic() - began

    def fit(self):
        step = 0
        while True:
            mine, whole = self.step()
            step += 1
            print(f"rank {self.rank} step {step}: verifier {mine:.1f} s of {whole:.1f} s", flush=True)


if __name__ == "__main__":
    torch.manual_seed(5)
    trainer = Trainer()
    print("ready", flush=True)
    trainer.fit()
