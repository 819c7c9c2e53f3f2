"""One rank loads its model before it joins the group, and its file doesn't come.

The file system behind the model is slow to death; here it is a pipe that nobody writes into.

---
ranks: 3
needs: [torch]
state: hung
accept: [init]
tie: [straggler]
laggards: [rank1]
quick: true
"""

import os

import torch.distributed as dist


def load_model(path):
    with open(path, "rb") as file:
        return file.read()


path = os.path.join(os.environ["HANG_FOLDER"], "model.bin")
print("ready", flush=True)
if os.environ["RANK"] == "1":
    os.mkfifo(path)
    load_model(path)
dist.init_process_group("gloo")
