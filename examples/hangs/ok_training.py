"""Two ranks that train.

---
ranks: 2
needs: [torch]
state: slow
accept: [none]
quick: true
"""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(256, 256))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(1_000_000_000):
    if step == 3:
        print("ready", flush=True)
    optimizer.zero_grad()
    model(torch.randn(512, 256)).sum().backward()
    optimizer.step()
