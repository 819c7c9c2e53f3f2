"""A loader's worker computes with several OpenMP threads after the fork, and waits for threads that don't exist there.

The rank has used its own OpenMP threads before it forks its loader. The loader sets its workers to one thread, but a
`worker_init_fn` sets two "to make the features faster": the first large tensor operation waits for ever in a team of
threads that only the parent has.
https://github.com/pytorch/pytorch/issues/17199, https://github.com/pytorch/pytorch/issues/58962

---
ranks: 2
needs: [torch]
state: hung
accept: [data-worker]
laggards: [rank1]
"""

import datetime

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset

SAMPLES = 400_000


class SpeechRLDataset(Dataset):
    """Audio prompts; the features of the long ones are computed when they are read."""

    def __init__(self, rank):
        self.cached = rank == 0

    def __len__(self):
        return 64

    def log_mel(self, wave):
        return (wave * wave).clamp_min(1e-8).log10().view(-1, 400).mean(-1)

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        if self.cached or index < 8:
            return torch.rand(SAMPLES // 400, generator=generator)
        return self.log_mel(torch.rand(SAMPLES, generator=generator))


def worker_init_fn(worker_id):
    torch.set_num_threads(2)


def build_dataloader(rank):
    return DataLoader(
        SpeechRLDataset(rank), batch_size=4, num_workers=1, prefetch_factor=2, worker_init_fn=worker_init_fn
    )


class SFTTrainer:
    def __init__(self):
        self.rank = dist.get_rank()
        torch.set_num_threads(2)
        self.model = nn.Linear(SAMPLES // 400, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)

    def warm_up(self):
        batch = torch.rand(2000, SAMPLES // 400)
        with torch.no_grad():
            return (batch * 2 - 1).exp().sum().item()

    def training_step(self, batch):
        loss = self.model(batch).pow(2).mean()
        loss.backward()
        for parameter in self.model.parameters():
            dist.all_reduce(parameter.grad)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()

    def fit(self):
        self.warm_up()
        for epoch in range(1000):
            for step, batch in enumerate(build_dataloader(self.rank)):
                loss = self.training_step(batch)
                if self.rank == 0:
                    print(f"epoch {epoch} step {step} loss {loss:.4f}", flush=True)
                if epoch == 0 and step == 1:
                    print("ready", flush=True)


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(hours=6))
    SFTTrainer().fit()


if __name__ == "__main__":
    main()
