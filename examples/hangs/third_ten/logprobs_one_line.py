"""One process computes log-probabilities of a batch of rollouts; nearly all of its time is spent at one line.

Nothing hangs: a step takes several seconds.

---
needs: [torch]
computes: [driver]
state: slow
accept: [none, python-loop]
laggards: []
"""

import torch

torch.set_num_threads(1)


def logprobs(model, xs):
    return [model(x).log_softmax(-1).sum() for x in xs]


model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 4096))
with torch.no_grad():
    print("ready", flush=True)
    step = 0
    while True:
        logprobs(model, [torch.randn(256, 1024) for _ in range(120)])
        print("step", step, flush=True)
        step += 1
