"""A sample of the data set lies on storage that doesn't answer, and its worker waits in `read`.

---
ranks: 2
needs: [torch]
state: hung
accept: [data-worker]
laggards: [rank0]
"""

import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, stuck):
        self.stuck = stuck

    def __len__(self):
        return 16

    def __getitem__(self, index):
        if index == 9 and self.stuck:
            with open(self.stuck, "rb") as file:
                return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
        return torch.zeros(8, dtype=torch.uint8)


dist.init_process_group("gloo")
stuck = ""
if dist.get_rank() == 0:
    stuck = os.path.join(os.environ["HANG_FOLDER"], "image-9.bin")
    os.mkfifo(stuck)
print("ready", flush=True)
for batch in DataLoader(Images(stuck), batch_size=4, num_workers=1):
    dist.all_reduce(batch.float())
