"""A package that one rank imports calls home while it is imported, and nobody answers.

---
ranks: 2
needs: [torch]
state: hung
accept: [compile-skew, straggler]
tie: [init]
laggards: [rank0]
"""

import os
import sys

import torch
import torch.distributed as dist

PACKAGE = """
import socket
quiet = socket.socket()
quiet.bind(("127.0.0.1", 0))
quiet.listen()
socket.create_connection(quiet.getsockname()).recv(1)
"""


def metrics():
    folder = os.environ["HANG_FOLDER"]
    with open(os.path.join(folder, "tracker.py"), "w") as file:
        file.write(PACKAGE)
    sys.path.insert(0, folder)
    import tracker

    return tracker


dist.init_process_group("gloo")
print("ready", flush=True)
if dist.get_rank() == 0:
    metrics()
dist.all_reduce(torch.ones(4))
