"""The job was started with fewer ranks than the script waits for.

The script takes the number of ranks from its own configuration, not from the launcher.

---
ranks: 2
needs: [torch]
state: hung
accept: [init, dead-peer]
laggards: []
"""

import os

import torch.distributed as dist

CONFIG = {"world_size": 3}

print("ready", flush=True)
dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=CONFIG["world_size"])
