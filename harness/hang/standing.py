"""Where a process stands: which of its threads decides, what that one waits for, and whether anything moves."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from harness.hang import waits
from harness.hang.model import Process, Sample, Thread, Threads
from harness.hang.waits import COMMUNICATION, EXECUTOR, IDLE, JOINED, RUNNING, Wait

Progress = Literal["", "moved", "looping", "still"]

# Who decides when several threads could: a collective in any thread says more than a main thread that waits for calls.
_IMPORTANCE: dict[str, float] = dict.fromkeys(COMMUNICATION, 10.0) | {
    "cuda": 9, "ray-get": 8, "ray-fetch": 8, "ray-core": 8, "ray-place": 8, "dataloader": 8, "file-lock": 8,
    "rollout": 8, "engine-reply": 8, "http": 7, "engine-idle": 5, "engine-poll": 5, "loader-idle": 5,
    "serve": 4, "launcher": 4, "loop": 4, "ray-idle": 3, "capacity": 2, "pool-idle": 0, "pool-helper": 0,
}  # fmt: skip
_WAITS_FOR_A_TASK = frozenset({"future", "lock", "queue", "join", "loop"})
_BUSY_CPU, _BUSY_CPU_CROWDED, _BUSY_CPU_RUNNABLE = 0.5, 0.1, 0.01
_WAKING_SWITCHES, _WAKING_CPU = 2.0, 0.02
# Turns of a first thread that don't come from being looked at; turns and CPU of one that sleeps between pieces of work.
_LEAST_TURNS, _WORKING_TURNS, _WORKING_CPU = 4, 5.0, 0.01
_BUSY_BYTES = 1_000_000
# futex(uaddr, op, val, timeout, …) on x86_64 and on aarch64; which of its arguments the time-out is.
_FUTEX, _TIME_OUT = ("202", "98"), 3


@dataclass(frozen=True)
class Standing:
    """What the threads of one sample say together.

    Attributes:
        thread, wait: the thread that decides and what it waits for.
        others: what its other threads wait for, helpers left out.
        gil_holder: a thread that holds the interpreter's lock although it sleeps, or while it waits for the device.
        active: whether the deciding thread is on a core, as far as the dumper tells.
    """

    thread: Thread
    wait: Wait
    others: tuple[Wait, ...]
    gil_holder: Thread | None

    @property
    def active(self) -> bool:
        """Whether the deciding thread was on a core."""
        return bool(self.thread.active)

    @property
    def idle(self) -> bool:
        """Whether it has nothing to do."""
        return self.wait.kind in IDLE

    @property
    def phases(self) -> frozenset[str]:
        """What the deciding stack is about."""
        return self.wait.phases


@lru_cache(maxsize=65536)
def at_rest(standing: Standing) -> Standing:
    """The same of a process of which the kernel says that no thread of it ran."""
    return dataclasses.replace(standing, thread=dataclasses.replace(standing.thread, active=False))


@lru_cache(maxsize=65536)
def of_threads(threads: Threads) -> Standing | None:
    """Where a process stands by its threads; None without any."""
    if not threads:
        return None
    useful = [thread for thread in threads if not waits.is_helper(thread)] or list(threads)
    deciding = max(useful, key=_importance)
    if waits.read_stack(deciding.stack).kind in _WAITS_FOR_A_TASK:
        # Who waits for a task that another thread does stands where that one stands.
        tasks = [thread for thread in useful if _does_a_task(thread)]
        deciding = max(tasks, key=_importance, default=deciding)
    holder = next(
        (
            thread
            for thread in threads
            if thread.holds_gil and (thread.active is False or waits.read_stack(thread.stack).kind == "cuda")
        ),
        None,
    )
    return Standing(
        thread=deciding,
        wait=waits.read_stack(deciding.stack),
        others=tuple(waits.read_stack(thread.stack) for thread in useful if thread is not deciding),
        gil_holder=holder,
    )


def _does_a_task(thread: Thread) -> bool:
    """Whether it is an executor's thread in the middle of a task that doesn't itself wait for another thread."""
    if not any(frame.function == "_worker" and frame.file == EXECUTOR for frame in thread.stack.frames):
        return False
    wait = waits.read_stack(thread.stack)
    return bool(wait.own) and wait.kind not in _WAITS_FOR_A_TASK | {"pool-idle"}


def _importance(thread: Thread) -> float:
    wait = waits.read_stack(thread.stack)
    if wait.kind == RUNNING:
        # A main thread in its own code is where the program is; another thread there is worth a look when it works.
        return 7 if thread.is_main else 6 if thread.active else 3.5
    if wait.kind in _IMPORTANCE:
        # An event loop in a side thread serves the main one.
        return (
            _IMPORTANCE[wait.kind]
            - (2 if wait.kind == "loop" and not thread.is_main else 0)
            + (0.1 if thread.is_main else 0)
        )
    return 5 if thread.is_main else 1


def progress(process: Process) -> Progress:
    """What the samples tell: ``still``, ``moved``, ``looping`` (same functions, other lines), or "" with one sample."""
    shown = [sample.threads for sample in process.samples if sample.threads]
    steps = {_step(before, after) for before, after in pairwise(shown)}
    found: Progress = "moved" if "moved" in steps else "looping" if "looping" in steps else "still" if steps else ""
    return "moved" if found == "still" and _comes_back(process) else found


def _comes_back(process: Process) -> bool:
    """Whether it was met at one place only, and has left it again and again in between.

    Who waits in one collective of gloo sleeps until that is done, and is on a core in it only when it begins or ends;
    NCCL's and MPI's waits wake up and look. Who sleeps again and again and works in between gets on; who only looks
    whether something has come may look for ever.
    """
    standing = of_threads(process.threads)
    pair = ends(process)
    if standing is None or pair is None or not standing.thread.is_main:
        return False
    before, after = pair[0].main_turns, pair[1].main_turns
    if before is None or after is None or after - before < _LEAST_TURNS:
        return False
    rate = (after - before) / max(pair[1].at - pair[0].at, 0.001)
    if standing.wait.kind in JOINED:
        return process.backends == "gloo" and rate >= _WAKING_SWITCHES
    works = not standing.active and (cpu_share(process) or 0.0) >= _WORKING_CPU
    return standing.wait.kind == RUNNING and rate >= _WORKING_TURNS and works


@lru_cache(maxsize=65536)
def _step(one: Threads, other: Threads) -> Progress:
    first, last = of_threads(one), of_threads(other)
    if first is None or last is None:
        return ""
    before, after = first.wait.clean, last.wait.clean
    if before == after:
        return "still"
    functions = [(frame.name, frame.file) for frame in before]
    if functions != [(frame.name, frame.file) for frame in after]:
        return "moved"
    # Only lines differ. The innermost alone, or in a wait of one kind: a loop, of which nobody knows whether it ends.
    same_wait = first.wait.kind == last.wait.kind != RUNNING
    return "looping" if before[1:] == after[1:] or same_wait else "moved"


def ends(process: Process) -> tuple[Sample, Sample] | None:
    """The first and the last sample that have stacks, if they are two."""
    with_stacks = [sample for sample in process.samples if sample.threads]
    return (with_stacks[0], with_stacks[-1]) if len(with_stacks) > 1 else None


def cpu_share(process: Process) -> float | None:
    """Cores used between the samples; None where that wasn't measured."""
    pair = ends(process)
    if pair is None or pair[0].cpu_seconds is None or pair[1].cpu_seconds is None:
        return None
    seconds = pair[1].at - pair[0].at
    return (pair[1].cpu_seconds - pair[0].cpu_seconds) / seconds if seconds > 0 else None


def is_busy(process: Process) -> bool | None:
    """Whether it computed between the samples; None where that wasn't measured.

    On a crowded machine a process that never rests gets a part of a core only: then it counts that it was found on a
    core each time; on a very crowded one, that the kernel called it runnable each time.
    """
    share = cpu_share(process)
    if share is None:
        return None
    seen = [sample for sample in process.samples if sample.threads]
    stood = [of_threads(sample.threads) for sample in seen]
    always = all(standing is not None and standing.active for standing in stood)
    runnable = all(sample.state == "R" for sample in seen)
    least = _BUSY_CPU_RUNNABLE if runnable else _BUSY_CPU_CROWDED
    return share >= _BUSY_CPU or (always and share >= least)


def slept(process: Process) -> bool:
    """Whether none of its threads came onto a core between the samples, whatever the dumper says of them."""
    pair = ends(process)
    if pair is None or pair[0].switches is None or pair[0].switches != pair[1].switches:
        return False
    return all(sample.state == "S" for sample in pair)


def waits_for_ever(process: Process) -> bool | None:
    """Whether its first thread sleeps in a futex without a time-out: at a lock; None where the kernel didn't tell."""
    number, *arguments = process.syscall.split() or [""]
    if number not in _FUTEX or len(arguments) < _TIME_OUT + 1:
        return None if not number or number == "running" else False
    return arguments[_TIME_OUT] == "0x0"


def wakes(process: Process) -> bool:
    """Whether it was woken up again and again between the samples: an event loop that goes on, although it sleeps."""
    pair = ends(process)
    if pair is None:
        return False
    seconds = max(pair[1].at - pair[0].at, 0.001)
    standing = of_threads(process.threads)
    before, after = pair[0].switches, pair[1].switches
    if standing is not None and standing.thread.is_main and None not in (pair[0].main_turns, pair[1].main_turns):
        # Another thread that ticks, a monitor's or a profiler's, wakes up no loop.
        before, after = pair[0].main_turns, pair[1].main_turns
    if before is not None and after is not None and (after - before) / seconds >= _WAKING_SWITCHES:
        return True
    return (cpu_share(process) or 0.0) >= _WAKING_CPU


def moves_bytes(process: Process) -> bool:
    """Whether it read or wrote a good deal between the samples."""
    pair = ends(process)
    if pair is None:
        return False
    seconds = max(pair[1].at - pair[0].at, 0.001)
    return any(
        after is not None and before is not None and (after - before) / seconds >= _BUSY_BYTES
        for before, after in ((pair[0].read_bytes, pair[1].read_bytes), (pair[0].write_bytes, pair[1].write_bytes))
    )
