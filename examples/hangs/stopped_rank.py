"""A rank is stopped by a signal: somebody's Ctrl-Z, a scheduler, a debugger that was left.

---
ranks: 3
needs: [torch]
state: hung
accept: [stopped]
laggards: [rank2]
quick: true
"""

import os
import signal

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for step in range(10):
    if step == 5:
        print("ready", flush=True)
        if os.environ["RANK"] == "2":
            os.kill(os.getpid(), signal.SIGSTOP)
    dist.all_reduce(torch.ones(10))
