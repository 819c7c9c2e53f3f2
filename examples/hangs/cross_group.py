"""Two ranks use the tensor-parallel and the data-parallel group in different orders.

---
ranks: 2
needs: [torch]
state: hung
accept: [cross-group, collective-mismatch]
laggards: []
quick: true
"""

import os

import torch
import torch.distributed as dist


def tensor_parallel(group):
    dist.all_reduce(torch.ones(8), group=group)


def data_parallel(group):
    dist.all_reduce(torch.ones(8), group=group)


dist.init_process_group("gloo")
tensor_group, data_group = dist.new_group([0, 1]), dist.new_group([0, 1])
print("ready", flush=True)
if os.environ["RANK"] == "0":
    tensor_parallel(tensor_group)
    data_parallel(data_group)
else:
    data_parallel(data_group)
    tensor_parallel(tensor_group)
