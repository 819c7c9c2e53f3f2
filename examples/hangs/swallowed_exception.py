"""A rank catches its exception, writes it to the log and goes on to its last duties; the others wait in the next step.

---
ranks: 3
needs: [torch]
state: hung
accept: [exception-swallowed]
tie: [straggler]
laggards: [rank1]
quick: true
"""

import threading
import traceback

import torch
import torch.distributed as dist


def train_step(step):
    if dist.get_rank() == 1 and step == 3:
        raise ValueError("loss is nan")
    if step == 3:
        print("ready", flush=True)
    dist.all_reduce(torch.ones(4))


def serve_metrics():
    print("ready", flush=True)
    threading.Event().wait()


dist.init_process_group("gloo")
try:
    for step in range(10):
        train_step(step)
except ValueError:
    traceback.print_exc()
serve_metrics()
