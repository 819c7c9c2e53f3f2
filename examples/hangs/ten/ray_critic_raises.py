"""The critic's update raises; the driver doesn't learn of it because it waits for the policy first.

Policy and critic share a trunk and sum its gradients over a group of two. A batch in which no episode came to its
end makes the critic take the largest of no returns, before its part of the sum. The critic is ready for its next
call, the policy waits in the sum, and the driver waits for the policy's result before it looks at the critic's.

---
needs: [torch, ray]
state: hung
accept: [exception-swallowed]
tie: [ray-wait]
laggards: [Critic]
"""

import os
from datetime import timedelta

import ray
import torch
import torch.distributed as dist
from torch import nn


class Worker:
    def __init__(self, rank, port):
        dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2, timeout=timedelta(hours=12))
        torch.manual_seed(0)
        self.trunk, self.head = nn.Linear(8, 32), nn.Linear(32, 1)
        self.optim = torch.optim.Adam([*self.trunk.parameters(), *self.head.parameters()], lr=1e-3)

    def loss(self, out, batch):
        raise NotImplementedError

    def update(self, batch):
        loss = self.loss(self.head(self.trunk(batch["obs"]).tanh()).squeeze(-1), batch)
        self.optim.zero_grad()
        loss.backward()
        for p in self.trunk.parameters():
            dist.all_reduce(p.grad)
        self.optim.step()
        return {f"{type(self).__name__}/loss": loss.item()}


@ray.remote
class Policy(Worker):
    def loss(self, out, batch):
        return -(nn.functional.logsigmoid(out) * batch["returns"]).mean()


@ray.remote
class Critic(Worker):
    def loss(self, out, batch):
        scale = batch["returns"][batch["done"]].abs().max()
        return ((out - batch["returns"]) / scale).square().mean()


class Driver:
    def __init__(self):
        port = os.environ["HANG_PORT"]
        self.policy, self.critic = Policy.remote(0, port), Critic.remote(1, port)
        self.max_length = 40

    def rollout(self, step, n=64):
        lengths = torch.randint(20 + 10 * step, 60 + 10 * step, (n,))
        return {"obs": torch.randn(n, 8), "returns": torch.randn(n), "done": lengths < self.max_length}

    def fit(self, steps):
        for step in range(steps):
            batch = ray.put(self.rollout(step))
            if step == 2:
                print("ready", flush=True)
            policy_ref, critic_ref = self.policy.update.remote(batch), self.critic.update.remote(batch)
            metrics = ray.get(policy_ref)
            metrics |= ray.get(critic_ref)
            print(step, metrics, flush=True)


if __name__ == "__main__":
    torch.manual_seed(1)
    ray.init(num_cpus=2, include_dashboard=False, _temp_dir=os.environ["HANG_FOLDER"])
    Driver().fit(100)
