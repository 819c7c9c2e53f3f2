"""What runs in the containers of these scenarios: says "ready", then stays where its argument tells."""

import ctypes
import sys
import threading
import time

PR_SET_DUMPABLE = 4


def hold_on() -> None:
    """Wait for what never comes."""
    threading.Event().wait()


def unreadable() -> None:
    """The same for a process that nobody but root with CAP_SYS_PTRACE may look into, as with Yama everywhere."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    hold_on()


def torch_hang() -> None:
    """Two ranks that call different collectives: rank 0 gathers, rank 1 waits at a barrier."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))
    say_ready()
    if dist.get_rank() == 0:
        dist.all_gather([torch.ones(4) for _ in range(dist.get_world_size())], torch.ones(4))
    else:
        dist.barrier()
    time.sleep(3600)


def torch_steps() -> None:
    """Ranks that train for ever, as long as they can reach each other."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    for step in range(1_000_000):
        dist.all_reduce(torch.ones(1024))
        if step == 2:
            say_ready()
        time.sleep(0.02)


def say_ready() -> None:
    """For whoever reads the log."""
    print("ready", flush=True)


if __name__ == "__main__":
    programs = {"hold-on": hold_on, "unreadable": unreadable, "torch": torch_hang, "torch-steps": torch_steps}
    what = programs[sys.argv[1]]
    if what in (hold_on, unreadable):
        say_ready()
    what()
