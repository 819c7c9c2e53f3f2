"""One of the trainers under Ray raises in its training function; the driver waits for all of them at once.

The others wait in a collective for the one that has failed, so their results never come, and the exception stays
unseen beside them. As in ray-project/ray#28314.

---
needs: [torch, ray]
state: hung
accept: [exception-swallowed]
tie: [uneven-steps, ray-wait]
laggards: [Trainer]
"""

import os
import tempfile

import ray
import torch
import torch.distributed as dist


@ray.remote(num_cpus=0)
class Trainer:
    def __init__(self, rank, size, store):
        self.rank = rank
        dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=size)

    def ready(self):
        return self.rank

    def train(self, data):
        weight = torch.zeros(8)
        for batch in data:
            gradient = torch.tensor(batch["tokens"], dtype=torch.float)
            dist.all_reduce(gradient)
            weight -= 0.1 * gradient
        return weight.sum().item()


def shards(count):
    good = [{"tokens": [1.0] * 8} for _ in range(50)]
    return [good if number != 2 else [*good[:7], {"text": "not tokenised"}, *good[8:]] for number in range(count)]


ray.init(num_cpus=3, include_dashboard=False, _temp_dir=os.environ["HANG_FOLDER"])
store = os.path.join(tempfile.mkdtemp(dir=os.environ["HANG_FOLDER"]), "store")
trainers = [Trainer.remote(rank, 3, store) for rank in range(3)]
ray.get([trainer.ready.remote() for trainer in trainers])
running = [trainer.train.remote(shard) for trainer, shard in zip(trainers, shards(3), strict=True)]
print("ready", flush=True)
done, _ = ray.wait(running, num_returns=len(running))
print(ray.get(done))
