"""Weights go from the trainer's rank 0 to the rollout rank, which still waits for all in the other group.

Ranks 0 to 2 train, rank 3 rolls out. Rank 0 joins the update first and the barrier of all afterwards, rank 3 the other
way round; ranks 1 and 2 wait for rank 0 in the trainers' group.

---
ranks: 4
needs: [torch]
state: hung
accept: [cross-group, collective-mismatch]
tie: [rank-conditional]
laggards: []
"""

import torch
import torch.distributed as dist


def update_weights(group):
    dist.broadcast(torch.ones(100), src=3, group=group)


def train_step(group):
    dist.all_reduce(torch.ones(100), group=group)


def start_of_step():
    dist.barrier()


dist.init_process_group("gloo")
trainers, update = dist.new_group([0, 1, 2]), dist.new_group([0, 3])
rank = dist.get_rank()
print("ready", flush=True)
if rank == 0:
    update_weights(update)
    train_step(trainers)
    start_of_step()
elif rank == 3:
    start_of_step()
    update_weights(update)
else:
    train_step(trainers)
    start_of_step()
