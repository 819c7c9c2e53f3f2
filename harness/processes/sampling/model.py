"""What is asked of a node and what it answers; both travel as JSON, the answer compressed by gzip.

Nothing here needs more than Python: a node that has nothing of ours gets this file, and pydantic takes as long to load
as half of a hang dump. What others have written goes through ``checked``, which has pydantic check it.
"""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import re
import zlib
from dataclasses import dataclass, field
from typing import Any, TypeVar

from harness.processes.sampling.alike import Alike, grouped, restored

_Record = TypeVar("_Record")

ANSWER_FORMAT = "drydock-sample/2"
# What one file of a dump may have at most.
DUMP_LIMIT = 64 * 2**20


# Nodes are asked on which agents run; a megabyte can be made to unpack to a gigabyte.
LARGEST_UNPACKED = 2 << 30


@dataclass
class SampleEntry:
    """How one sample of one process went.

    Attributes:
        file: the dump, relative to the folder; None where there is none, and then ``error`` says why.
        way: how it was taken: ``py-spy`` (stopped for it, or asleep all the while), ``py-spy --nonblocking`` (what ran
            meanwhile may be wrong), ``unmoved`` (its Python threads have not run since the sample before, whose file
            this is), ``faulthandler``, ``proc``.
        at: seconds since the first sample of the whole dump.
        switches, main_turns: how often its threads, and its first one, came onto a core so far.
        sleeps: when threads that sleep will go on by themselves, by their numbers, on the same clock as ``at``.
    """

    file: str | None = None
    way: str = "py-spy"
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


@dataclass
class ProcessEntry:
    """One process, found or expected.

    Attributes:
        id: ``rank<k>``; without ranks ``driver``, ``server`` or ``worker:<pid>``. A child has its rank's id and the
            role ``child``.
        role: rank, child, driver, server, worker, launcher.
        pid: its number in the PID namespace of whoever sampled it.
        pid_namespace, own_pid, start_ticks: inode of its own PID namespace, its number in there, and clock ticks from
            boot to its start. Together they are one process, however many ways lead to it; 0 where not known.
        listens: has a listening socket. An event loop that sleeps is a service's then, rather than a lost await.
        backends: of the process groups of torch.distributed that it belongs to (``gloo nccl``), by its threads' names.
        missing: expected by the world size, but nowhere found.
        exit_code: of a process that has ended, where somebody kept it.
        wchan, syscall: where the kernel has it, for a process in state D or one that no dumper could read.
        lock_holder: who holds the lock on a file that it waits for, and which file.
        locks: threads that wait for a lock between threads (``thread_locks.Waiting``).
        job: what the ranks of one launch have in common (the address of their store), to tell two jobs apart.
        blocked_call: with ``locals``, the call of torch.distributed that it is in, with types and sizes of its tensors.
        recorder: the file in this folder with its Flight Recorder.
        tasks: the file in this folder with the await chains of its asyncio tasks.
        python: version of its interpreter (``3.11``), where that is known.
        logs: files in this folder that are its own.
    """

    id: str = ""
    role: str = ""
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    local_world_size: int | None = None
    job: str = ""
    pid: int = 0
    ppid: int = 0
    pid_namespace: int = 0
    own_pid: int = 0
    start_ticks: int = 0
    host: str = ""
    container: str = ""
    command: str = ""
    python: str = ""
    state: str = ""
    wchan: str = ""
    syscall: str = ""
    lock_holder: str = ""
    locks: list[dict[str, Any]] = field(default_factory=list)
    listens: bool = False
    backends: str = ""
    missing: bool = False
    exit_code: int | None = None
    error: str = ""
    samples: list[SampleEntry] = field(default_factory=list)
    blocked_call: str = ""
    recorder: str = ""
    tasks: str = ""
    logs: list[str] = field(default_factory=list)


@dataclass
class SampleRequest:
    """What to sample on a node, and how.

    Attributes:
        pids: these and what descends from them, by their numbers in the node's PID namespace.
        match: a regular expression; processes whose command line it is found in, and what descends from them.
        everything: every Python process, also those that don't look like training or serving. Without any of the
            three, what looks like training or serving is taken.
        samples: samples of each process, 1 to 5.
        gap_seconds: from the end of one sample of all to the beginning of the next.
        timeout_seconds: after this the node answers with what it has.
        dump_seconds: one process may take this long; then its dumper is ended.
        locals: local variables, redacted.
        native: frames of C and C++ as well; stops a process with torch for a second or more.
        tasks: await chains of asyncio tasks; stops the process for a moment.
        logs: files or patterns (``*``), whose ends are taken along.
        within: id of a Docker container; only its processes are looked at. Others may share its PID namespace: whoever
            samples it, or the whole machine.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  # pydantic's, which doesn't want it annotated

    pids: list[int] = field(default_factory=list)
    match: str = ""
    everything: bool = False
    samples: int = field(default=2, metadata={"ge": 1, "le": 5})
    gap_seconds: float = field(default=2.0, metadata={"ge": 0, "le": 600})
    timeout_seconds: float = field(default=120.0, metadata={"gt": 0})
    dump_seconds: float = field(default=15.0, metadata={"gt": 0})
    locals: bool = False
    native: bool = False
    tasks: bool = False
    logs: list[str] = field(default_factory=list)
    within: str = ""

    def __post_init__(self) -> None:
        """Raises ValueError where ``match`` is no regular expression."""
        try:
            re.compile(self.match)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None


@dataclass
class NodeAnswer:
    """What one node found.

    Attributes:
        boot_id: the kernel's name for this boot; the same in all containers of a machine.
        pid_namespace: inode of the namespace in which the pids of this answer count.
        container: name of the container, where who asked knows it.
        dumps: file name to content; entries name them as ``file``.
        alike: under way only: dumps that are like another but for numbers, see ``sampling.alike``.
        left_out: command lines of Python processes that were seen and not sampled.
        notes: what a person should know: what was denied, cut short, or not there.
    """

    __pydantic_config__ = {"val_json_bytes": "base64"}  # noqa: RUF012

    format: str = ANSWER_FORMAT
    host: str = ""
    boot_id: str = ""
    pid_namespace: int = 0
    container: str = ""
    processes: list[ProcessEntry] = field(default_factory=list)
    dumps: dict[str, bytes] = field(default_factory=dict)
    alike: dict[str, Alike] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)


def checked(kind: type[_Record], data: str | bytes | dict[str, Any]) -> _Record:
    """A record that somebody else has written, as JSON or as what was read from it.

    Raises:
        ValueError: it isn't one; the message says where and why.
    """
    from pydantic import TypeAdapter, ValidationError  # not before: see above

    adapter = TypeAdapter(kind)
    try:
        return adapter.validate_python(data) if isinstance(data, dict) else adapter.validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        said = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{where}: {said}" if where else said) from None


def plain(record: Any, leave_out: frozenset[str] = frozenset()) -> dict[str, Any]:
    """A record's fields that aren't at their default, records within it likewise; bytes as JSON can have them."""
    return {
        own.name: _plain(value)
        for own in dataclasses.fields(record)
        if own.name not in leave_out and (value := getattr(record, own.name)) != _default(own)
    }


def _default(own: dataclasses.Field[Any]) -> Any:
    return own.default if own.default_factory is dataclasses.MISSING else own.default_factory()


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return plain(value)
    if isinstance(value, bytes):
        return base64.urlsafe_b64encode(value).decode()
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def pack(answer: NodeAnswer) -> bytes:
    """An answer as it travels: of equal stacks one, with the numbers of the others."""
    kept, alike = grouped(answer.dumps)
    text = json.dumps(plain(dataclasses.replace(answer, dumps=kept, alike=alike)), separators=(",", ":"))
    return gzip.compress(text.encode(), compresslevel=3, mtime=0)


def read_answer(text: bytes) -> NodeAnswer:
    """The answer whose JSON this is, with all its stacks.

    Raises:
        ValueError: it isn't one.
    """
    answer = checked(NodeAnswer, text)
    answer.dumps, answer.alike = restored(answer.dumps, answer.alike), {}
    return answer


def unpack(data: bytes) -> NodeAnswer:
    """The answer that travelled here.

    Raises:
        ValueError: this isn't one, or not a whole one.
    """
    try:
        packed = zlib.decompressobj(wbits=31)
        text = packed.decompress(data, LARGEST_UNPACKED)
        if not packed.eof:
            raise EOFError("it breaks off, or is larger than an answer can be")
        return read_answer(text)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise ValueError(f"no answer of `harness sample`: {error}") from None
