"""Each rank stops early by its own evaluation score; one has had enough while the others train on.

The score should have been gathered first. As in huggingface/transformers#17478.

---
ranks: 3
needs: [torch]
state: hung
accept: [uneven-steps]
tie: [collective-mismatch]
laggards: [rank2]
"""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

EPOCHS, STEPS, PATIENCE = 20, 4, 2
RANK = int(os.environ["RANK"])


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.best, self.bad = patience, float("inf"), 0

    def enough(self, loss):
        if loss < self.best:
            self.best, self.bad = loss, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


def evaluate(model, epoch):
    with torch.no_grad():
        loss = model(torch.ones(2, 8)).square().mean().item()
    # The held-out shard of the last rank is the one on which it gets worse.
    return loss + (epoch if RANK == 2 else -epoch)


def train_epoch(model, optimizer):
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()


def save_final(model):
    dist.barrier()
    if RANK == 0:
        torch.save(model.module.state_dict(), os.path.join(os.environ["HANG_FOLDER"], "final.pt"))


dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
stopping = EarlyStopping(PATIENCE)
print("ready", flush=True)
for epoch in range(EPOCHS):
    train_epoch(model, optimizer)
    if stopping.enough(evaluate(model, epoch)):
        break
save_final(model)
