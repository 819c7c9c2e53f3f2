"""Two ranks that have trained and ended.

---
ranks: 2
needs: [torch]
state: done
accept: [none]
"""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
print("ready", flush=True)
