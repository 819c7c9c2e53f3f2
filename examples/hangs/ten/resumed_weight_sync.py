"""After a resume the trainer pushes weights while the generators want to hand in rollouts.

Both sides count steps and exchange weights every second one. The trainer takes its count from the checkpoint; the
generators start at 0. So the trainer is in the broadcast of the group for weights, the generators are in the gather
of the group for rollouts, and the second trainer waits for its half of the rollouts in the trainers' group.

---
ranks: 4
needs: [torch]
state: hung
accept: [cross-group]
tie: [collective-mismatch]
laggards: []
"""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

TRAINERS, GENERATORS, SYNC_EVERY = [0, 1], [2, 3], 2
SHAPE = (16, 32)


class Groups:
    def __init__(self):
        self.train = dist.new_group(TRAINERS)
        self.weights = dist.new_group([0, *GENERATORS])
        self.rollouts = dist.new_group([0, *GENERATORS])


class Trainer:
    def __init__(self, groups, model, step):
        self.groups, self.model, self.step = groups, model, step
        self.lead = dist.get_rank() == 0
        self.optim = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def push_weights(self):
        for p in self.model.parameters():
            dist.broadcast(p.data, src=0, group=self.groups.weights)

    def collect(self):
        data = torch.empty(len(GENERATORS), *SHAPE)
        if self.lead:
            parts = [torch.empty(SHAPE) for _ in range(3)]
            dist.gather(torch.zeros(SHAPE), parts, dst=0, group=self.groups.rollouts)
            data = torch.stack(parts[1:])
        dist.broadcast(data, src=0, group=self.groups.train)
        return data[dist.get_rank()]

    def fit(self):
        while True:
            batch = self.collect()
            self.optim.zero_grad()
            self.model(batch).square().mean().backward()
            for p in self.model.parameters():
                dist.all_reduce(p.grad, group=self.groups.train)
            self.optim.step()
            self.step += 1
            print(f"trained step {self.step}", flush=True)
            if self.lead and self.step % SYNC_EVERY == 0:
                self.push_weights()


def generate(groups, model):
    step = 0
    while True:
        with torch.no_grad():
            rollout = model(torch.randn(SHAPE))
        dist.gather(rollout, dst=0, group=groups.rollouts)
        step += 1
        print(f"generated step {step}", flush=True)
        if step % SYNC_EVERY == 0:
            for p in model.parameters():
                dist.broadcast(p.data, src=0, group=groups.weights)


if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=timedelta(hours=12))
    torch.manual_seed(0)
    groups, model = Groups(), nn.Linear(32, 32)
    resumed_at = int(os.environ.get("RESUME_STEP", 7))
    print("ready", flush=True)
    if dist.get_rank() in TRAINERS:
        Trainer(groups, model, resumed_at).fit()
    else:
        generate(groups, model)
