"""One rank leaves the PPO epochs early because its own KL is too high; the others go on with the next minibatch.

The estimate of the KL is taken from the rank's own minibatch, and so is the decision to stop. Rank 1 got its
rollouts from a server with older weights, so its ratio is off from the start. It goes on to collect the metrics
of all ranks while the others wait for its gradients.

---
ranks: 3
needs: [torch]
state: hung
accept: [uneven-steps]
tie: [collective-mismatch]
laggards: [rank1]
"""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

OBS, ACTIONS, EPOCHS, CLIP, TARGET_KL = 8, 4, 4, 0.2, 0.05


def rollout(policy, stale, n=256):
    """Act in an environment that answers with noise; a stale server acts with other weights than ours."""
    obs = torch.randn(n, OBS)
    with torch.no_grad():
        logits = policy(obs)
        if stale:
            logits = logits + torch.randn(ACTIONS) * 1.5
        dist_ = torch.distributions.Categorical(logits=logits)
        action = dist_.sample()
    return {"obs": obs, "action": action, "logp": dist_.log_prob(action), "adv": torch.randn(n)}


class PPO:
    def __init__(self, rank):
        self.rank = rank
        net = nn.Sequential(nn.Linear(OBS, 64), nn.Tanh(), nn.Linear(64, ACTIONS))
        self.policy = DistributedDataParallel(net)
        self.optim = torch.optim.Adam(self.policy.parameters(), lr=3e-4)

    def minibatches(self, data, size=64):
        for index in torch.randperm(len(data["obs"])).split(size):
            yield {k: v[index] for k, v in data.items()}

    def update(self, data):
        steps, kl = 0, 0.0
        for epoch in range(EPOCHS):
            for mb in self.minibatches(data):
                d = torch.distributions.Categorical(logits=self.policy(mb["obs"]))
                log_ratio = d.log_prob(mb["action"]) - mb["logp"]
                ratio = log_ratio.exp()
                loss = -torch.min(ratio * mb["adv"], ratio.clamp(1 - CLIP, 1 + CLIP) * mb["adv"]).mean()
                self.optim.zero_grad()
                loss.backward()
                self.optim.step()
                kl = ((ratio - 1) - log_ratio).mean().item()
                steps += 1
            if kl > TARGET_KL:
                print(f"rank {self.rank}: stop in epoch {epoch}, kl {kl:.3f}", flush=True)
                break
        return {"kl": kl, "steps": steps}


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=12))
    rank = dist.get_rank()
    torch.manual_seed(17 + rank)
    trainer = PPO(rank)
    for iteration in range(100):
        data = rollout(trainer.policy.module, stale=rank == 1 and iteration == 1)
        if iteration == 1:
            print("ready", flush=True)
        mine = trainer.update(data)
        everyone = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, mine)
        if rank == 0:
            print(iteration, sum(m["kl"] for m in everyone) / len(everyone), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    assert "RANK" in os.environ, "start it as torchrun would"
    main()
