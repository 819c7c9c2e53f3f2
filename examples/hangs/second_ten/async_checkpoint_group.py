"""An asynchronous checkpoint talks over the same process group as the training that goes on beside it.

The checkpoint's thread gathers the shards' metadata, the main thread reduces gradients, both on the default group.
Rank 0 is a little late for its next step since it writes the tokenizer and config; there the gathering comes first,
on the others the gradients do. The orders differ, so neither of the two is ever complete.
https://github.com/KempnerInstitute/KempnerForge/issues/104

---
ranks: 3
needs: [torch]
state: hung
accept: [collective-mismatch]
tie: [checkpoint-skew]
laggards: []
"""

import datetime
import io
import json
import os
import threading
import time

import torch
import torch.distributed as dist
from torch import nn

FOLDER = os.environ.get("HANG_FOLDER", "/tmp")


class AsyncCheckpointer:
    """Write the state in the background; staged to the host first, so that training can go on."""

    def __init__(self, rank):
        self.rank = rank
        self.thread = None

    def stage(self, state):
        return {name: tensor.detach().clone() for name, tensor in state.items()}

    def serialize(self, staged):
        buffer = io.BytesIO()
        torch.save(staged, buffer)
        time.sleep(1.5)  # to pinned memory, at the size of a real shard
        return buffer.getvalue()

    def plan_globally(self, blob):
        plans = [None] * dist.get_world_size()
        dist.all_gather_object(plans, {"rank": self.rank, "bytes": len(blob)})
        return plans

    def write(self, step, staged):
        blob = self.serialize(staged)
        plans = self.plan_globally(blob)
        path = os.path.join(FOLDER, f"global_step_{step}-shard_{self.rank}.pt")
        with open(path, "wb") as out:
            out.write(blob)
        if self.rank == 0:
            print(f"saved global_step_{step}: {sum(p['bytes'] for p in plans)} bytes", flush=True)

    def save(self, step, state):
        self.wait()
        self.thread = threading.Thread(
            target=self.write, args=(step, self.stage(state)), name="AsyncCheckpointExecutor_0", daemon=True
        )
        self.thread.start()

    def wait(self):
        if self.thread is not None:
            self.thread.join()


class FSDPTrainer:
    save_freq = 3

    def __init__(self):
        self.rank = dist.get_rank()
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.checkpointer = AsyncCheckpointer(self.rank)

    def save_hf_config(self, step):
        with open(os.path.join(FOLDER, "config.json"), "w") as out:
            json.dump({"architectures": ["Qwen2ForCausalLM"], "step": step}, out)
        time.sleep(4.0)  # tokenizer.json, on the shared file system

    def save_checkpoint(self, step):
        self.checkpointer.save(step, self.model.state_dict())
        if self.rank == 0:
            self.save_hf_config(step)

    def reduce_gradients(self):
        for parameter in self.model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()

    def update_actor(self, batch):
        loss = self.model(batch).pow(2).mean()
        loss.backward()
        self.reduce_gradients()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()

    def fit(self):
        for step in range(1, 1000):
            time.sleep(0.3)
            if step == self.save_freq + 1:
                print("ready", flush=True)
            loss = self.update_actor(torch.randn(8, 32))
            if self.rank == 0:
                print(f"step {step} loss {loss:.4f}", flush=True)
            if step % self.save_freq == 0:
                self.save_checkpoint(step)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(hours=6))
    FSDPTrainer().fit()


if __name__ == "__main__":
    main()
