"""A rank dies while it loads, and the others wait for it to join.

As the kernel does when memory is short: no word, no exit handler.

---
ranks: 3
needs: [torch]
state: hung
accept: [dead-peer]
tie: [init]
laggards: [rank1]
quick: true
"""

import os
import signal

import torch.distributed as dist

print("ready", flush=True)
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGKILL)
dist.init_process_group("gloo")
