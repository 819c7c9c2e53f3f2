"""One rank asks a program for the machine's state, and the program doesn't come back.

`nvidia-smi` on a machine whose driver is stuck, for example.

---
ranks: 3
needs: [torch]
state: hung
accept: [straggler]
laggards: [rank1]
"""

import subprocess

import torch.distributed as dist


def gpu_memory():
    return subprocess.run(["sleep", "1000000"], capture_output=True, check=True).stdout


dist.init_process_group("gloo")
print("ready", flush=True)
if dist.get_rank() == 1:
    gpu_memory()
dist.barrier()
