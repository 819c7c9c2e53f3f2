"""Whether there is a checkpoint to resume from is decided by each rank with its own look at a shared file system.

One rank's mount hasn't heard of the file yet, so it skips the broadcast of the state and begins to train. As in
KempnerInstitute/KempnerForge#49.

---
ranks: 3
needs: [torch]
state: hung
accept: [collective-mismatch]
tie: [uneven-steps, rank-conditional]
laggards: [rank1]
"""

import os
from pathlib import Path

import torch
import torch.distributed as dist


class CheckpointManager:
    def __init__(self, folder, rank):
        self.rank = rank
        self.state_path = folder / ("train_state.pt" if rank != 1 else "stale-view/train_state.pt")

    def save(self, state):
        if self.rank == 0:
            torch.save(state, self.state_path)
        dist.barrier()

    def load(self):
        if not self.state_path.exists():
            return {"step": 0}
        box = [torch.load(self.state_path) if self.rank == 0 else None]
        dist.broadcast_object_list(box, src=0)
        return box[0]


def train(state):
    weight = torch.zeros(16)
    for _ in range(state["step"], 100):
        gradient = torch.randn(16)
        dist.all_reduce(gradient)
        weight -= gradient


dist.init_process_group("gloo")
manager = CheckpointManager(Path(os.environ["HANG_FOLDER"]), dist.get_rank())
manager.save({"step": 10})
print("ready", flush=True)
train(manager.load())
