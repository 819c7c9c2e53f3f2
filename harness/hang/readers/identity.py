"""Who a process is: its rank and role, from a file's name, a heading, its command line and its stacks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.hang.model import Process, Role
from harness.hang.readers.digits import whole
from harness.processes.sampling.roles import RAY_WORKER, role_by_command
from harness.processes.sampling.roles import is_system as is_system

_RANK_FILE = re.compile(r"(?:^|[^a-z])rank[_.\-]?(\d{1,7})(?!\d)", re.IGNORECASE)
_CHILD_FILE = re.compile(r"child[_.\-]?(\d{1,10})", re.IGNORECASE)
_PID_FILE = re.compile(r"(?:^|[_.\-/])(?:pid[_.\-]?)?(\d{2,10})(?:\.(?:json|txt|log|out))?$", re.IGNORECASE)
_SECOND_SAMPLE = re.compile(r"\.([2-9])\.(?:json|txt|log)$")
_NAMED = re.compile(r"^(driver|server|launcher|worker)(?:[_.\-:]?(\d+))?\b", re.IGNORECASE)
_RANK_ARGUMENT = re.compile(r"(?:^|[\s,;(])(?:--?)?(?:global[_-])?rank[= ](\d{1,7})(?!\S)", re.IGNORECASE)
_LOCAL_RANK_ARGUMENT = re.compile(r"--?local[_-]rank[= ](\d{1,7})(?!\S)", re.IGNORECASE)

_SERVER_PARTS = re.compile(r"VLLM::(?:EngineCore|Worker)|sglang::(?:scheduler|detokenizer)")


_Spot = tuple[str, str, int]


@dataclass(frozen=True)
class NameParts:
    """What a file's name says.

    Attributes:
        sample: 1, or 2 for ``rank0.2.json``.
        role: of files that are called ``driver``, ``server``, ``launcher``, ``worker``.
    """

    rank: int | None = None
    child: int | None = None
    pid: int | None = None
    sample: int = 1
    role: Role = ""
    stem: str = ""


def read_name(name: str) -> NameParts:
    """Take a file's name apart; folders above count too (``rank3/stack.txt``)."""
    base = name.rpartition("/")[2]
    rank = None
    if match := _RANK_FILE.search(base) or _RANK_FILE.search(name):
        rank = whole(match[1])
    child = _CHILD_FILE.search(base)
    second = _SECOND_SAMPLE.search(base)
    named = _NAMED.match(base)
    role: Role = ""
    pid = _PID_FILE.search(base) if rank is None and child is None else None
    if named and rank is None:
        role = named[1].lower()  # type: ignore[assignment]
    return NameParts(
        rank=rank,
        child=whole(child[1]) if child else None,
        pid=whole(pid[1]) if pid else None,
        sample=whole(second[1]) if second else 1,
        role=role,
        stem=_SECOND_SAMPLE.sub("", base).rsplit(".", 1)[0] if second else base.rsplit(".", 1)[0],
    )


def rank_in_command(command: str) -> int | None:
    """A rank given as an argument (``--rank 3``, ``rank=3``)."""
    match = _RANK_ARGUMENT.search(command)
    return whole(match[1]) if match else None


def local_rank_in_command(command: str) -> int | None:
    """A local rank given as an argument, as old launchers do."""
    match = _LOCAL_RANK_ARGUMENT.search(command)
    return whole(match[1]) if match else None


def name_all(processes: list[Process]) -> None:
    """Give every process that has none an id, and every child its owner."""
    _ranks_from_local(processes)
    by_pid = {_spot(process, process.pid): process for process in processes if process.pid}
    siblings: dict[_Spot, list[Process]] = {}
    for process in processes:
        siblings.setdefault(_spot(process, process.ppid), []).append(process)
    for process in processes:
        parent = by_pid.get(_spot(process, process.ppid))
        if process.role == "" and process.rank is None and parent is not None and parent is not process:
            # Ranks that their script started itself are no helpers; nor are Ray's workers, but what these start is.
            ranks = any(_looks_distributed(sibling) for sibling in siblings[_spot(process, process.ppid)])
            own_worker = RAY_WORKER.search(process.command) and not RAY_WORKER.search(parent.command)
            process.role = "" if ranks or own_worker or _leads(parent) else "child"
        if process.role == "":
            process.role = "rank" if process.rank is not None else role_by_command(process.command)
    taken = {process.id for process in processes if process.id and process.role != "child"}
    unnamed = [process for process in processes if not process.id and process.role != "child"]
    doubled = _doubled(processes)
    # The part that answers HTTP is "the server"; its engine and workers are numbered beside it.
    for process in sorted(unnamed, key=lambda process: bool(_SERVER_PARTS.search(process.command))):
        if process.role == "rank" and process.rank is not None:
            process.id = _free(f"rank{process.rank}", taken, process)
        elif process.role in ("server", "driver", "launcher"):
            process.id = _free(process.role, taken, process)
        elif process.role == "worker":
            process.id = _free(_by_number(process, process.pid, doubled), taken, process)
    rest = [process for process in unnamed if not process.id]
    # One process that is nothing else is the driver; several alike are workers of something that we don't know.
    living = [process for process in rest if not process.missing]
    if len(living) == 1 and "driver" not in taken and not _looks_distributed(living[0]):
        living[0].role, living[0].id = "driver", "driver"
        taken.add("driver")
        rest.remove(living[0])
    for number, process in enumerate(rest, start=1):
        process.role = "worker"
        # A paste without numbers is counted.
        process.id = _free(_by_number(process, process.pid or number, doubled), taken, process)
    _name_children(processes, by_pid, doubled)


def _spot(process: Process, pid: int) -> _Spot:
    """A number counts on its machine and in its container only."""
    return process.host, process.container, pid


def _doubled(processes: list[Process]) -> set[int]:
    """Numbers that processes without a name have in several places; each container counts from 1."""
    places: dict[int, set[tuple[str, str]]] = {}
    for process in processes:
        if not process.id and process.rank is None and process.role not in ("server", "driver", "launcher"):
            places.setdefault(process.pid, set()).add((process.host, process.container))
    return {pid for pid, several in places.items() if pid and len(several) > 1}


def _by_number(process: Process, number: int, doubled: set[int]) -> str:
    """What a process is called by its number, and by its place where the number is another's as well."""
    place = (process.container or process.host) if process.pid in doubled else ""
    return f"worker:{number}@{place}" if place else f"worker:{number}"


def _name_children(processes: list[Process], by_pid: dict[_Spot, Process], doubled: set[int]) -> None:
    by_rank = {process.rank: process for process in processes if process.role == "rank"}
    for process in processes:
        if process.role != "child":
            continue
        owner = _owner(process, by_pid)
        if process.rank is not None and (owner is None or owner.rank != process.rank):
            owner = by_rank.get(process.rank)
        if owner is not None:
            process.owner = owner.id
            process.rank = owner.rank
        # A child belongs to its rank; without one it is a process that a person looks up by its number.
        if not process.id:
            numbered = _by_number(process, process.pid, doubled)
            process.id = f"rank{process.rank}" if process.rank is not None else numbered


def _owner(process: Process, by_pid: dict[_Spot, Process]) -> Process | None:
    """The nearest process above it that is no child itself."""
    above = by_pid.get(_spot(process, process.ppid))
    for _ in range(64):
        if above is None or above.role != "child":
            return above
        above = by_pid.get(_spot(above, above.ppid))
    return None


def _ranks_from_local(processes: list[Process]) -> None:
    """On one machine the local rank is the rank; with two machines it would name two processes alike."""
    numbered = [
        process
        for process in processes
        if process.local_rank is not None and process.rank is None and process.role in ("", "rank")
    ]
    if len({process.local_rank for process in numbered}) == len(numbered) and not any(
        p.rank is not None for p in processes
    ):
        for process in numbered:
            process.rank = process.local_rank


def _leads(process: Process) -> bool:
    """Whether its children are parts of the system of their own, not helpers."""
    return process.role in ("launcher", "server") or role_by_command(process.command) in ("launcher", "server")


def _looks_distributed(process: Process) -> bool:
    return any(
        frame.file.startswith("torch/distributed/") or frame.name.startswith(("c10d::", "nccl"))
        for thread in process.threads
        for frame in thread.stack.frames
    )


def _free(name: str, taken: set[str], process: Process) -> str:
    """The name, or with what tells it from those that have it already."""
    if name in taken:
        for more in (process.host, process.container, str(process.pid)):
            if more and f"{name}@{more}" not in taken and not name.startswith("worker:"):
                name = f"{name}:{more}" if more == str(process.pid) and process.role != "rank" else f"{name}@{more}"
                break
        else:
            base, count = name, 2
            while name in taken:
                name, count = f"{base}#{count}", count + 1
    taken.add(name)
    return name
