"""Small programs that hang, each in a way that people meet; run as ``python programs.py NAME`` as a rank.

Each says "ready" on its standard output just before the call in which it will hang.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from typing import Any

RANK = int(os.environ.get("RANK", "0"))
WORLD = int(os.environ.get("WORLD_SIZE", "1"))


def ready() -> None:
    """Tell the test that the hang is next."""
    print("ready", flush=True)


def join(**options: Any) -> Any:
    """Join the group of all ranks."""
    import torch.distributed as dist

    dist.init_process_group("gloo", **options)
    return dist


def ones(count: int = 4) -> Any:
    """Something to send."""
    import torch

    return torch.ones(count)


# --- patterns A, B, C of the guide ---


class Trainer:
    """Waits for all ranks when it is left, also by an exception."""

    def __enter__(self) -> Trainer:
        self.dist = join()
        return self

    def __exit__(self, *error: object) -> None:
        self.finish()

    def finish(self) -> None:
        """What makes the exception invisible."""
        ready()
        self.dist.barrier()


def cleanup() -> None:
    """A: rank 1 fails, and its cleanup waits for the ranks that still train."""
    with Trainer() as trainer:
        for step in range(6):
            if RANK == 1 and step == 3:
                raise RuntimeError("bad batch")
            if step == 3:
                ready()
            train_step(trainer.dist)


def train_step(dist: Any) -> None:
    """One reduction."""
    dist.all_reduce(ones())


def different_collectives() -> None:
    """B: one rank takes another branch."""
    dist = join()
    ready()
    if RANK == 0:
        broadcast_weights(dist)
    else:
        train_step(dist)


def broadcast_weights(dist: Any) -> None:
    """Another collective of the same group; from rank 1, so that rank 0 waits as well."""
    dist.broadcast(ones(), 1)


def crossed_groups() -> None:
    """B: the same collective on two groups, in different orders."""
    dist = join()
    first, second = dist.new_group([0, 1]), dist.new_group([0, 1])
    ready()
    steps = [(forward, first), (backward, second)]
    for step, group in steps if RANK == 0 else reversed(steps):
        step(dist, group)


def forward(dist: Any, group: Any) -> None:
    """The first reduction."""
    dist.all_reduce(ones(), group=group)


def backward(dist: Any, group: Any) -> None:
    """The second."""
    dist.all_reduce(ones(), group=group)


def same_line() -> None:
    """C: all in one collective at one line; the test cuts the network or stops a rank."""
    dist = join()
    train_step(dist)
    ready()
    while True:
        train_step(dist)


# --- others ---


def late_to_init() -> None:
    """Rank 1 loads for ever before it joins."""
    if RANK == 1:
        load_model()
    ready()
    join()


def load_model() -> None:
    """Takes long."""
    ready()
    time.sleep(10_000)


LOCK = threading.Lock()


class Samples:
    """A data set whose items need a lock that was held when the workers were forked."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        with LOCK:
            return ones(index)


def data_worker() -> None:
    """Rank 1 waits for its data workers."""
    dist = join()
    ready()
    if RANK == 1:
        from torch.utils.data import DataLoader

        LOCK.acquire()
        for _ in DataLoader(Samples(), batch_size=4, num_workers=2):
            pass
    train_step(dist)


def holds_gil() -> None:
    """Rank 0 sleeps in C without letting go of the interpreter's lock."""
    dist = join()
    ready()
    if RANK == 0:
        native_call()
    train_step(dist)


def native_call() -> None:
    """A call through PyDLL keeps the lock."""
    import ctypes

    ctypes.PyDLL(None).sleep(10_000)


def python_loop() -> None:
    """Rank 1 packs for ever."""
    dist = join()
    ready()
    if RANK == 1:
        pack([3, 4])
    train_step(dist)


def pack(lengths: list[int]) -> None:
    """A bin packing whose end never comes."""
    index = 0
    while True:
        if lengths[index] > 5:
            return
        index = (index + 1) % len(lengths)


def dead_peer() -> None:
    """Rank 1 is gone before it joins."""
    ready()
    if RANK == 1:
        os._exit(7)
    join()


def swallowed() -> None:
    """Rank 1 catches its exception, says so, and leaves the loop; it has other work left."""
    dist = join()
    for step in range(8):
        try:
            if RANK == 1 and step == 3:
                raise ValueError("bad sample")
            if step == 3:
                ready()
            train_step(dist)
        except ValueError:
            import traceback

            traceback.print_exc()
            upload_logs()


def upload_logs() -> None:
    """What it does instead."""
    ready()
    time.sleep(10_000)


def lost_await() -> None:
    """Rank 1 awaits what nobody sends."""
    dist = join()
    ready()
    if RANK == 1:
        asyncio.run(collect_rollouts())
    train_step(dist)


async def collect_rollouts() -> None:
    """Three consumers and no producer."""
    queue: asyncio.Queue[int] = asyncio.Queue()
    await asyncio.gather(*[one_rollout(queue) for _ in range(3)])


async def one_rollout(queue: asyncio.Queue[int]) -> int:
    """Waits for ever."""
    return await queue.get()


def one_after_another() -> None:
    """Fewer micro-batches on the sender: the receiver waits for one more."""
    dist = join()
    for batch in range(3 if RANK == 0 else 4):
        if batch == 3:
            ready()
        exchange(dist)
    ready()
    dist.barrier()


def exchange(dist: Any) -> None:
    """One activation."""
    if RANK == 0:
        dist.send(ones(), 1)
    else:
        dist.recv(ones(), 0)


def other_size() -> None:
    """The receiver expects less than the sender sends, and both wait."""
    dist = join()
    ready()
    if RANK == 0:
        train_with(dist, 1_000_000)
    else:
        train_with(dist, 1_000_000)
        train_step(dist)


def train_with(dist: Any, count: int) -> None:
    """Reduce so many."""
    dist.all_reduce(ones(count))


# --- that don't hang ---


def healthy() -> None:
    """Trains for ever."""
    import torch

    dist = join()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(256, 256))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    ready()
    while True:
        optimizer.zero_grad()
        model(torch.randn(512, 256)).sum().backward()
        optimizer.step()
        train_step(dist)


# --- without torch ---


def plain() -> None:
    """Waits in a function of its own; for tests of the sampling itself."""
    ready()
    train_here(secret_key="sk-0123456789abcdefghij", batch=[1, 2, 3])


def train_here(secret_key: str, batch: list[int]) -> None:
    """Its locals are looked at."""
    threading.Event().wait()


def spins() -> None:
    """Uses a core."""
    ready()
    pack([3, 4])


def wakes() -> None:
    """Looks ten times a second whether there is something to do."""
    ready()
    while True:
        time.sleep(0.1)


def with_children() -> None:
    """Starts a Python child, a foreign one, and one that becomes a zombie."""
    import multiprocessing
    import subprocess

    subprocess.Popen([sys.executable, "-c", "pass"])  # nobody asks how it ended
    subprocess.Popen(["sleep", "10000"])
    child = multiprocessing.get_context("fork").Process(target=train_here, args=("", []), daemon=True)
    child.start()
    ready()
    child.join()


def agents() -> None:
    """An asyncio program whose tasks wait for each other."""
    asyncio.run(run_agents())


async def run_agents() -> None:
    """Six agents for two places, and none is given back."""
    places, never = asyncio.Semaphore(2), asyncio.Event()
    tasks = [asyncio.create_task(run_agent(places, never), name=f"agent-{number}") for number in range(6)]
    asyncio.get_running_loop().call_later(0.1, ready)
    await asyncio.gather(*tasks)


async def run_agent(places: asyncio.Semaphore, never: asyncio.Event) -> None:
    """Waits for its turn, then for ever."""
    async with places:
        await never.wait()


def unreachable() -> None:
    """Sleeps where no signal reaches it: until a child that has its memory gives that back."""
    import ctypes

    libc = ctypes.CDLL(None)
    ready()
    if libc.vfork() == 0:
        libc.sleep(10_000)
        libc._exit(0)


def hooked() -> None:
    """Has what DEBUG=faulthandler installs."""
    import harness.hooks

    harness.hooks.install()
    ready()
    train_here("", [])


if __name__ == "__main__":
    globals()[sys.argv[1]]()
