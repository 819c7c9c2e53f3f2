"""The two tensor-parallel ranks of an inference scheduler have nothing to do, and are well.

Rank 0 looks for requests and broadcasts what it has found, most of the time an empty list; rank 1 spends its life in
that broadcast. They have served three requests and would serve the next.
https://github.com/sgl-project/sglang/issues/9863 (what an idle scheduler does),
https://github.com/sgl-project/sglang/pull/10232 (the sleep)

---
ranks: 2
needs: [torch]
state: idle
accept: [none]
laggards: []
"""

import datetime
import os
import pickle
import socket
import threading
import time

import torch
import torch.distributed as dist
from torch import nn

ADDRESS = os.path.join(os.environ.get("HANG_FOLDER", "/tmp"), "scheduler.ipc")


def broadcast_pyobj(data, rank, group):
    """A list of Python objects from rank 0 to the group: its size, then its bytes."""
    if rank == 0:
        blob = pickle.dumps(data)
        size = torch.tensor([len(blob)])
        dist.broadcast(size, src=0, group=group)
        dist.broadcast(torch.frombuffer(bytearray(blob), dtype=torch.uint8), src=0, group=group)
        return data
    size = torch.zeros(1, dtype=torch.long)
    dist.broadcast(size, src=0, group=group)
    blob = torch.empty(int(size), dtype=torch.uint8)
    dist.broadcast(blob, src=0, group=group)
    return pickle.loads(blob.numpy().tobytes())


class Scheduler:
    def __init__(self, rank, tp_cpu_group):
        self.tp_rank, self.tp_cpu_group = rank, tp_cpu_group
        torch.manual_seed(0)
        self.shard = nn.Linear(16, 32, bias=False)
        self.running_batch = []
        self.served = 0
        self.socket = None
        if rank == 0:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self.socket.bind(ADDRESS)
            self.socket.setblocking(False)

    def recv_requests(self):
        requests = []
        if self.tp_rank == 0:
            while True:
                try:
                    requests.append(pickle.loads(self.socket.recv(65536)))
                except BlockingIOError:
                    break
        return broadcast_pyobj(requests, self.tp_rank, self.tp_cpu_group)

    def run_batch(self):
        hidden = self.shard(torch.ones(len(self.running_batch), 16))
        dist.all_reduce(hidden, group=self.tp_cpu_group)
        for request in self.running_batch:
            request["left"] -= 1
        finished = [r for r in self.running_batch if r["left"] == 0]
        self.running_batch = [r for r in self.running_batch if r["left"]]
        self.served += len(finished)
        for request in finished:
            if self.tp_rank == 0:
                print(f"finished rid={request['rid']}, #served {self.served}", flush=True)

    def check_memory(self):
        assert not self.running_batch

    def self_check_during_idle(self):
        self.check_memory()
        if self.tp_rank == 0:
            time.sleep(0.1)

    def event_loop_normal(self):
        told = False
        while True:
            self.running_batch += self.recv_requests()
            if self.running_batch:
                self.run_batch()
                continue
            if self.served == 3 and not told:
                told = True
                print("ready", flush=True)
            self.self_check_during_idle()


def send_warmup_requests():
    client = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    for rid in range(3):
        time.sleep(0.7)
        client.sendto(pickle.dumps({"rid": rid, "left": 20}), ADDRESS)
    client.close()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(hours=6))
    rank = dist.get_rank()
    scheduler = Scheduler(rank, dist.new_group([0, 1]))
    if rank == 0:
        threading.Thread(target=send_warmup_requests, name="warmup", daemon=True).start()
    scheduler.event_loop_normal()


if __name__ == "__main__":
    main()
