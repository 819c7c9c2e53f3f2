"""Which processes of this PID namespace are meant, and what each of them is."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from functools import cached_property

from harness.processes import exits
from harness.processes.redact import redact_command
from harness.processes.sampling import facts, roles
from harness.processes.sampling.model import ProcessEntry, SampleRequest
from harness.processes.sampling.roles import Place
from harness.processes.stat import Stat, all_pids, read_command, read_stat
from harness.processes.tree import descendants_of

_LONGEST_COMMAND = 400
# Python's own helper processes: they sleep at the end of a pipe by design.
_HELPERS = re.compile(r"multiprocessing\.resource_tracker|multiprocessing\.forkserver|torch_shm_manager")


@dataclass
class Seen:
    """A process before anything was decided about it."""

    stat: Stat
    arguments: list[str]
    python: bool = False
    place: Place = field(default_factory=Place)

    @cached_property
    def libraries(self) -> frozenset[str]:
        """Which of the telling libraries it has mapped; looked at where nothing simpler decides, for it takes long."""
        return facts.libraries(self.stat.pid) if self.python else frozenset()

    @property
    def command(self) -> str:
        """Its arguments as one text."""
        return " ".join(self.arguments) or f"[{self.stat.name}]"


@dataclass
class Found:
    """Who is meant.

    Attributes:
        entries: parents before their children.
        left_out: command lines of Python processes that don't look like training or serving.
    """

    entries: list[ProcessEntry]
    left_out: list[str] = field(default_factory=list)


def find(request: SampleRequest) -> Found:
    """The processes that a request is about, with everything about them that is quickly seen and needs no dumper."""
    seen, handed_over = _look_around(request.within)
    chosen, left_out = _choose(request, seen, handed_over)
    order = [pid for pid in seen if pid in chosen]
    host, container = facts.host(), ""
    entries = [_entry(seen[pid], seen, chosen, host, container) for pid in order]
    for pid in request.pids:
        if pid not in seen:
            entries.append(ProcessEntry(pid=pid, host=host, missing=True, error="there is no such process (any more)"))
    return Found(entries, left_out)


def _look_around(within: str) -> tuple[dict[int, Seen], set[int]]:
    """Everything that could be meant: no kernel threads, nothing of ours; of one container alone where one is named.

    With it those that a person has handed over to `make run`: whatever they look like, they are what it is about.
    """
    seen: dict[int, Seen] = {}
    for pid in sorted(all_pids()):
        stat = read_stat(pid)
        if stat is None or 2 in (pid, stat.ppid):
            continue
        arguments = read_command(pid)
        if arguments is None and not stat.is_zombie:
            continue
        if within and not facts.in_container(pid, within):
            continue
        seen[pid] = Seen(stat, arguments or [])
    seen.pop(os.getpid(), None)
    supervisors = [pid for pid, one in seen.items() if roles.is_supervisor(one.arguments)]
    handed_over = set(descendants_of(supervisors, {pid: one.stat for pid, one in seen.items()}))
    for pid in [pid for pid, one in seen.items() if roles.is_own(one.arguments)]:
        del seen[pid]
    for pid, one in seen.items():
        one.python = _is_python(pid, one)
    return seen, handed_over


def _is_python(pid: int, one: Seen) -> bool:
    if one.stat.is_zombie:
        return False
    if roles.is_python(one.arguments, one.stat.name):
        return True
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith(("python", "pypy"))
    except OSError:
        return bool(roles.RAY_WORKER.search(one.command))


def _choose(request: SampleRequest, seen: dict[int, Seen], handed_over: set[int]) -> tuple[set[int], list[str]]:
    stats = {pid: one.stat for pid, one in seen.items()}
    explicit = bool(request.pids or request.match)
    roots = {pid for pid in request.pids if pid in seen}
    if request.match:
        expression = re.compile(request.match)
        above = _ancestors(os.getpid())
        # The shell that typed our command line has the expression in its own; that isn't who was meant.
        roots |= {
            pid for pid, one in seen.items() if expression.search(one.command) and (one.python or pid not in above)
        }
    left_out: list[str] = []
    # What lives in a container isn't meant by "this machine": who means it names it, or the container.
    namespaces = {0, facts.pid_namespace(), *(() if not request.within else map(facts.pid_namespace, seen))}
    for pid, one in seen.items():
        if explicit and pid not in roots:
            continue
        if not explicit and one.python and facts.pid_namespace(pid) not in namespaces:
            continue
        if one.python:
            one.place = roles.place(facts.environ(pid))
        if explicit:
            continue
        checked = roles.is_checked_agent(one.arguments)
        if (one.python and (request.everything or pid in handed_over or checked)) or _works(one):
            roots.add(pid)
    chosen = roots | set(descendants_of(roots, stats))
    chosen = {pid for pid in chosen if not _is_helper(seen[pid])}
    for pid in chosen - roots:
        one = seen[pid]
        if one.python and explicit:
            one.place = roles.place(facts.environ(pid))
    if not explicit:
        left = [
            pid for pid, one in seen.items()
            if one.python and pid not in chosen and not _is_helper(one) and facts.pid_namespace(pid) in namespaces
        ]  # fmt: skip
        # Whom somebody means is likely of that user, and was started lately; services are strangers, and old.
        left.sort(key=lambda pid: (_of_another(pid), -seen[pid].stat.start_ticks))
        left_out = [_shown(seen[pid].command) for pid in left]
    return chosen, left_out


def _of_another(pid: int) -> bool:
    """Whether a process is another user's; whoever used sudo is who typed."""
    try:
        return os.stat(f"/proc/{pid}").st_uid not in {os.getuid(), int(os.environ.get("SUDO_UID") or os.getuid())}
    except (OSError, ValueError):
        return True


def _is_helper(one: Seen) -> bool:
    """Python's and Ray's own services: they wait by design."""
    return bool(_HELPERS.search(one.command)) or roles.is_system(one.command)


def _works(one: Seen) -> bool:
    """Whether it looks like training or serving."""
    if roles.is_system(one.command):
        return False
    role = roles.role_by_command(one.command)
    if not one.python:
        return role == "launcher" and not one.stat.is_zombie
    return role != "" or one.place.rank is not None or bool(one.libraries & {"torch", "ray"})


def _entry(one: Seen, seen: dict[int, Seen], chosen: set[int], host: str, container: str) -> ProcessEntry:
    pid = one.stat.pid
    status = facts.status_fields(pid)
    entry = ProcessEntry(
        pid=pid,
        ppid=one.stat.ppid,
        pid_namespace=facts.pid_namespace(pid),
        own_pid=facts.own_pid(status),
        start_ticks=one.stat.start_ticks,
        host=host,
        container=container,
        command=_shown(one.command),
        state=facts.state_of_any_thread(pid, one.stat),
        python=facts.python_version(pid) if one.python else "",
    )
    role = _role(one, seen)
    place = one.place
    owner = _rank_above(one, seen, chosen)
    if one.python and place.rank is not None and role != "launcher" and owner is None:
        entry.role = "rank"
        entry.rank, entry.local_rank, entry.world_size = place.rank, place.local_rank, place.world_size
        entry.local_world_size, entry.job = place.local_world_size, place.job
    elif owner is not None:
        entry.role, entry.rank, entry.job = "child", owner.place.rank, owner.place.job
    elif role:
        entry.role = role
    elif one.stat.ppid not in chosen and ("ray" in one.libraries or roles.is_checked_agent(one.arguments)):
        entry.role = "driver"
    if one.stat.is_zombie:
        ended = exits.of_zombie(one.stat)
        if ended is not None:
            entry.exit_code = ended.code if ended.signal is None else -ended.signal
    elif not one.python:
        entry.error = "not a Python process"
    return entry


def _role(one: Seen, seen: dict[int, Seen]) -> str:
    above = seen.get(one.stat.ppid)
    served = one.python and above is not None and roles.is_gateway(above.command)
    return roles.role_by_command(one.command) or ("server" if served else "")


def _rank_above(one: Seen, seen: dict[int, Seen], chosen: set[int]) -> Seen | None:
    """The rank that it descends from and whose environment it has inherited; None for a rank itself."""
    pid = one.stat.ppid
    for _ in range(64):
        above = seen.get(pid)
        if above is None or pid not in chosen:
            return None
        if above.python and above.place.rank is not None and roles.role_by_command(above.command) != "launcher":
            inherited = one.place.rank is None or one.place == above.place
            return (_rank_above(above, seen, chosen) or above) if inherited else None
        pid = above.stat.ppid
    return None


def _ancestors(pid: int) -> set[int]:
    found: set[int] = set()
    while (stat := read_stat(pid)) is not None and stat.ppid and stat.ppid not in found:
        pid = stat.ppid
        found.add(pid)
    return found


def _shown(command: str) -> str:
    return redact_command(command)[:_LONGEST_COMMAND]
