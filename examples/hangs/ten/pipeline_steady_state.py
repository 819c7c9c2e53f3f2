"""In a 1F1B pipeline each stage sends to its neighbour while the neighbour sends to it.

The steady state of the schedule wants "send my output and receive the gradient" as one call. Here it is a send and
then a receive, on both sides. A test with as many microbatches as warm-up steps never gets that far.

---
ranks: 3
needs: [torch]
state: hung
accept: [p2p-order]
laggards: []
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

HIDDEN, TOKENS = 256, 512


class Stage:
    def __init__(self):
        self.rank, self.n = dist.get_rank(), dist.get_world_size()
        self.first, self.last = self.rank == 0, self.rank == self.n - 1
        self.block = nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, HIDDEN))
        self.pending = []

    def recv_activation(self):
        x = torch.empty(TOKENS, HIDDEN)
        if self.first:
            return x.normal_()
        dist.recv(x, src=self.rank - 1)
        return x.requires_grad_()

    def recv_gradient(self):
        if self.last:
            return None
        grad = torch.empty(TOKENS, HIDDEN)
        dist.recv(grad, src=self.rank + 1)
        return grad

    def send_activation(self, y):
        if not self.last:
            dist.send(y.detach(), dst=self.rank + 1)

    def send_gradient(self, x):
        if not self.first:
            dist.send(x.grad, dst=self.rank - 1)

    def forward(self, x):
        self.pending.append((x, self.block(x)))
        return self.pending[-1][1]

    def backward(self, grad):
        x, y = self.pending.pop(0)
        (y.square().mean() if self.last else y).backward(grad)
        return x

    def train_batch(self, microbatches):
        warmup = min(self.n - self.rank - 1, microbatches)
        for _ in range(warmup):
            self.send_activation(self.forward(self.recv_activation()))
        x = self.recv_activation() if warmup < microbatches else None
        for i in range(microbatches - warmup):
            self.send_activation(self.forward(x))
            self.send_gradient(self.backward(self.recv_gradient()))
            if i + 1 < microbatches - warmup:
                x = self.recv_activation()
        for _ in range(warmup):
            self.send_gradient(self.backward(self.recv_gradient()))


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=12))
    stage = Stage()
    optim = torch.optim.SGD(stage.block.parameters(), lr=1e-3)
    print("ready", flush=True)
    for step in range(1000):
        stage.train_batch(microbatches=8)
        optim.step()
        optim.zero_grad()
        print(f"stage {stage.rank}: step {step}", flush=True)


if __name__ == "__main__":
    main()
