"""The plain data that readers give and rules judge: frames, threads, processes, and all that was dumped with them.

Stacks and threads are shared between the processes that have equal ones (see ``readers.interning``), so that a hundred
thousand ranks in twelve groups cost twelve stacks, and equal ones can be told by identity.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

_COMPILED = (".c", ".cc", ".cpp", ".cxx", ".cu", ".h", ".hpp", ".S", ".rs")

Role = Literal["rank", "child", "driver", "server", "worker", "launcher", ""]


class Frame(NamedTuple):
    """One call on a stack.

    Attributes:
        name: function as the dumper wrote it; qualified (``Trainer.step``) since Python 3.11.
        file: path as it is imported (``torch/distributed/distributed_c10d.py``); a library's name for native code.
        line: 0 where it isn't known.
    """

    name: str
    file: str
    line: int = 0

    @property
    def function(self) -> str:
        """The bare name, which Python 3.10 and 3.14 have in common."""
        return self.name.rpartition(".")[2] if not self.is_native else self.name

    @property
    def is_native(self) -> bool:
        """Whether this is compiled code: its file is a library, a source of one, or isn't known."""
        return not self.file or ".so" in self.file or self.file.endswith(_COMPILED)

    def __str__(self) -> str:
        return f"{self.name} ({self.file}:{self.line})" if self.line else f"{self.name} ({self.file})"


@dataclass(eq=False, frozen=True)
class Stack:
    """Frames of one thread, innermost first; equal stacks are one object."""

    frames: tuple[Frame, ...]


@dataclass(eq=False, frozen=True)
class Thread:
    """One thread at one moment; equal threads are one object.

    Attributes:
        active: on a core or runnable; None where the dumper doesn't tell.
        holds_gil: owns the interpreter's lock.
    """

    name: str
    stack: Stack
    active: bool | None = None
    holds_gil: bool = False

    @property
    def is_main(self) -> bool:
        """Whether it is the process's first thread."""
        return self.name == "MainThread"


Threads = tuple[Thread, ...]


@dataclass(slots=True)
class Sample:
    """A process at one moment.

    Attributes:
        at: seconds since the first sample of the dump.
        state: the kernel's letter (R S D T t Z), or "".
        cpu_seconds: user and system time so far, all threads.
        read_bytes, write_bytes: what went through the block layer or the network file system so far.
        switches: context switches so far, of both kinds.
        main_turns: how often its first thread came onto a core so far.
        gpu_percent: utilisation of the process's GPU.
        sleeps: when its threads that sleep will go on by themselves, on the clock of ``at``, by their numbers.
    """

    threads: Threads = ()
    at: float = 0.0
    state: str = ""
    cpu_seconds: float | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None
    switches: int | None = None
    main_turns: int | None = None
    gpu_percent: float | None = None
    sleeps: dict[str, float] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class LockWait:
    """A thread that waits for a lock of its process; see ``processes.sampling.thread_locks.Waiting``."""

    thread: str
    wants: str
    line: str
    holds: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Process:
    """A process of the system, found or expected.

    Attributes:
        id: ``rank3``, ``driver``, ``server``, ``worker:4711``. Children of a rank carry their rank's.
        owner: for a child, the id of the process it belongs to.
        listens: has a listening socket.
        local_world_size: ranks on its node, as its launcher told it.
        syscall: the call of the kernel in which its first thread sleeps, with its arguments (``/proc/PID/syscall``).
        lock_holder: who holds the lock on a file that it waits for, and which file.
        locks: its threads that wait for a lock between threads, with those that they hold.
        backends: of the process groups of torch.distributed that it belongs to.
        here: its number where the dump was asked for; None: the same as ``pid``; 0: it can't be seen from there.
        missing: expected, but not found.
        exit_code: for a process that has ended; minus the signal's number as Python's subprocess has it.
        error: why it couldn't be sampled.
        blocked_call: the call of torch.distributed that it is in, with its tensors' types and sizes; "" where nobody
            looked.
    """

    id: str = ""
    role: Role = ""
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    local_world_size: int | None = None
    owner: str = ""
    pid: int = 0
    here: int | None = None
    ppid: int = 0
    host: str = ""
    container: str = ""
    command: str = ""
    state: str = ""
    wchan: str = ""
    syscall: str = ""
    lock_holder: str = ""
    locks: list[LockWait] = field(default_factory=list)
    listens: bool = False
    backends: str = ""
    missing: bool = False
    exit_code: int | None = None
    error: str = ""
    blocked_call: str = ""
    samples: list[Sample] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    source: str = ""

    @property
    def threads(self) -> Threads:
        """The threads of the last sample that has any: the latest is what holds now."""
        return next((sample.threads for sample in reversed(self.samples) if sample.threads), ())

    @property
    def gone(self) -> bool:
        """Whether it can't take part any more: never found, ended, or a zombie."""
        return self.missing or self.exit_code is not None or self.state in ("Z", "X")


@dataclass
class Recorded:
    """One operation in a rank's Flight Recorder.

    Attributes:
        sequence: number of the collective within its group.
        sizes, dtypes: of inputs, then of outputs.
        completed: whether the recorder knows it as done; gloo's ``state`` never says so, the group's status does.
    """

    group: str
    sequence: int
    operation: str
    sizes: str
    dtypes: str
    point_to_point: bool
    completed: bool


@dataclass
class Recording:
    """One rank's Flight Recorder dump.

    Attributes:
        members: ranks of each group by its name, where known.
        enqueued, completed: last sequence number of each group.
    """

    rank: int
    operations: list[Recorded] = field(default_factory=list)
    members: dict[str, list[int]] = field(default_factory=dict)
    enqueued: dict[str, int] = field(default_factory=dict)
    completed: dict[str, int] = field(default_factory=dict)
    source: str = ""


@dataclass
class Loop:
    """What could wake up an event loop of asyncio.

    Attributes:
        timers: how many are set.
        next_timer: seconds until the first of them; None without one.
        watched: sockets and pipes that it watches, without the one by which threads wake it up.
    """

    timers: int
    next_timer: float | None
    watched: int


@dataclass
class Task:
    """One asyncio task and what it awaits, innermost last."""

    name: str
    chain: tuple[Frame, ...]
    waiting_on: str = ""


@dataclass
class Hint:
    """A line of a log that bears on a hang.

    Attributes:
        kind: ``traceback``, ``watchdog``, ``store-barrier``, ``oom``, ``ray-lost``, ``ray-resources``, ``finished``, …
        rank: the rank that wrote it, where the line or the file tells.
    """

    kind: str
    text: str
    rank: int | None = None
    source: str = ""
    numbers: dict[str, int] = field(default_factory=dict)


@dataclass
class Dump:
    """Everything that was read from one input.

    Attributes:
        tasks: await chains of a process's asyncio tasks, by its id.
        loops: its event loops, only if all of them could be read.
        unreachable: machines and containers that were named and couldn't be asked, each with the reason.
    """

    processes: list[Process] = field(default_factory=list)
    world_size: int | None = None
    gap_seconds: float | None = None
    recordings: list[Recording] = field(default_factory=list)
    tasks: dict[str, list[Task]] = field(default_factory=dict)
    loops: dict[str, list[Loop]] = field(default_factory=dict)
    hints: list[Hint] = field(default_factory=list)
    pending_actors: list[str] = field(default_factory=list)
    stands_for_all: bool = False
    unreachable: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
