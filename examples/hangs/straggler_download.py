"""One rank still fetches its shard of the data, from a server that doesn't send.

---
ranks: 4
needs: [torch]
state: hung
accept: [straggler]
laggards: [rank3]
quick: true
"""

import socket

import torch
import torch.distributed as dist


def fetch_shard():
    quiet = socket.socket()
    quiet.bind(("127.0.0.1", 0))
    quiet.listen()
    with socket.create_connection(quiet.getsockname()) as connection:
        connection.sendall(b"GET /shard-3\n")
        return connection.recv(1 << 20)


dist.init_process_group("gloo")
print("ready", flush=True)
if dist.get_rank() == 3:
    fetch_shard()
dist.all_reduce(torch.ones(10))
