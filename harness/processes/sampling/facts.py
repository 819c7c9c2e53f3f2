"""What /proc tells of one process, beside its line of ``stat``."""

from __future__ import annotations

import os
import re
import socket
from functools import lru_cache
from typing import NamedTuple

from harness.processes.sampling import reach, turns
from harness.processes.stat import Stat, read_small, read_stat

# What says that a process computes or serves: libraries that it has mapped.
_TELLING_LIBRARY = re.compile(rb"/(libtorch_python|libtorch_cpu|_raylet|libpython3)[^/\n]*\.so")
_INTERPRETER = re.compile(rb"/(?:libpython3[\w.]*\.so[\w.]*|python3?(?:\.\d+)?[dt]?)\s*$", re.MULTILINE)

# torch/csrc/distributed/c10d/ProcessGroup*.cpp: pt_gloo_runloop, pt_nccl_watchdg, pt_nccl_heartbt, …; seen on gloo.
_GROUP_THREAD = re.compile(rb"pt_(gloo|nccl|xccl|ucc|mpi)_")


class Look(NamedTuple):
    """A process at one moment: what tells one that gets on from one that is stuck; None where it can't be read.

    Attributes:
        state: the kernel's letter; T or t also where only some of its threads are stopped.
        switches: how often its threads came onto a core; the main one's alone say nothing where another does the work.
    """

    state: str
    start_ticks: int
    cpu_seconds: float
    read_bytes: int | None
    write_bytes: int | None
    switches: int | None
    threads: dict[int, turns.Turns]


@lru_cache(maxsize=1)
def boot_id() -> str:
    """The kernel's name for this boot; "" where it can't be read."""
    content = read_small("/proc/sys/kernel/random/boot_id")
    return (content or b"").decode("ascii", "replace").strip()


def host() -> str:
    """This machine's name, as its containers may call it otherwise."""
    return socket.gethostname()


def pid_namespace(pid: int | str = "self") -> int:
    """Inode of a process's PID namespace; 0 where it can't be read."""
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return 0


def in_container(pid: int, container: str) -> bool:
    """Whether the process belongs to the Docker container of this id, by its control groups."""
    return container.encode() in (read_small(f"/proc/{pid}/cgroup") or b"")


def environ(pid: int) -> dict[str, str]:
    """The environment that the process was started with; {} where it isn't for us to read."""
    content = read_small(f"/proc/{pid}/environ")
    if content is None:
        content = reach.environment(read_small(f"/proc/{pid}/stat") or b"", pid)
    pairs = (part.partition(b"=") for part in content.split(b"\0") if part)
    return {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, _, value in pairs}


def libraries(pid: int) -> frozenset[str]:
    """Which of the telling libraries it has mapped: ``torch``, ``ray``, ``python``; empty where it isn't for us."""
    content = read_small(f"/proc/{pid}/maps") or b""
    found = set()
    for match in _TELLING_LIBRARY.finditer(content):
        found.add({b"_raylet": "ray", b"libpython3": "python"}.get(match[1], "torch"))
    if "python" not in found and _INTERPRETER.search(content):
        found.add("python")
    return frozenset(found)


def python_version(pid: int) -> str:
    """``3.11`` by the name of the program that runs; "" where that doesn't tell."""
    try:
        match = re.fullmatch(r"python(3\.\d+)t?", os.path.basename(os.readlink(f"/proc/{pid}/exe")))
    except OSError:
        return ""
    return match[1] if match else ""


def status_fields(pid: int) -> dict[str, str]:
    """The lines of ``/proc/PID/status`` by name."""
    content = read_small(f"/proc/{pid}/status") or b""
    pairs = (line.partition(":") for line in content.decode("utf-8", "replace").splitlines())
    return {name: value.strip() for name, _, value in pairs}


def own_pid(status: dict[str, str]) -> int:
    """Its number in its own PID namespace, the innermost; 0 where the kernel doesn't say (before 4.1)."""
    numbers = status.get("NSpid", "").split()
    return int(numbers[-1]) if numbers and numbers[-1].isdecimal() else 0


def look(pid: int) -> Look | None:
    """Where it stands now; None when it is gone."""
    stat, threads = read_stat(pid), turns.of_process(pid)
    if stat is None or not threads:
        return None
    io = _numbers(f"/proc/{pid}/io")
    counted = all(thread.nanoseconds is not None for thread in threads.values())
    return Look(
        state=_of_any(stat.state, {thread.state for thread in threads.values()}),
        start_ticks=stat.start_ticks,
        cpu_seconds=stat.cpu_seconds,
        read_bytes=io.get("read_bytes"),
        write_bytes=io.get("write_bytes"),
        switches=sum(thread.taken for thread in threads.values()) if counted else _switches(pid),
        threads=threads,
    )


def state_of_any_thread(pid: int, stat: Stat) -> str:
    """The kernel's letter; T or t also where only some of its threads are stopped."""
    return _of_any(stat.state, {thread.state for thread in turns.of_process(pid).values()})


def _of_any(state: str, threads: set[str]) -> str:
    return next((letter for letter in ("T", "t") if letter in threads), state)


def kernel_place(pid: int) -> tuple[str, str]:
    """``(wchan, syscall)``: where the kernel has its first thread; "" where that isn't told."""
    wchan = (read_small(f"/proc/{pid}/wchan") or b"").decode("ascii", "replace").strip()
    call = (read_small(f"/proc/{pid}/syscall") or b"").decode("ascii", "replace").strip()
    return ("" if wchan == "0" else wchan), call


def listening(pids: list[int]) -> set[int]:
    """Those that have a listening TCP or Unix socket. Network namespaces may differ, so each table is read once."""
    tables: dict[int, set[str]] = {}
    found = set()
    for pid in pids:
        try:
            namespace = os.stat(f"/proc/{pid}/ns/net").st_ino
            names = os.listdir(f"/proc/{pid}/fd")
        except PermissionError:
            if reach.listens(pid, int(status_fields(pid).get("FDSize", "0"))):
                found.add(pid)
            continue
        except OSError:
            continue
        if namespace not in tables:
            tables[namespace] = _listening_inodes(pid)
        wanted = tables[namespace]
        if wanted and any(_socket_inode(pid, name) in wanted for name in names):
            found.add(pid)
    return found


def group_backends(pid: int) -> str:
    """Backends of the process groups that it is a member of, by the threads that torch starts for each."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return ""
    names = (read_small(f"/proc/{pid}/task/{thread}/comm") or b"" for thread in threads)
    return " ".join(sorted({match[1].decode() for name in names if (match := _GROUP_THREAD.match(name))}))


def _listening_inodes(pid: int) -> set[str]:
    found = set()
    for table in ("tcp", "tcp6"):
        for line in (read_small(f"/proc/{pid}/net/{table}") or b"").decode("ascii", "replace").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == "0A":
                found.add(fields[9])
    return found


def _socket_inode(pid: int, descriptor: str) -> str:
    try:
        target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
    except OSError:
        return ""
    return target[8:-1] if target.startswith("socket:[") else ""


def _numbers(path: str) -> dict[str, int]:
    pairs = (line.partition(b":") for line in (read_small(path) or b"").splitlines())
    return {name.decode("ascii", "replace"): int(value) for name, _, value in pairs if value.strip().isdigit()}


def _switches(pid: int) -> int | None:
    """Context switches of all threads, on a kernel that keeps no count of turns."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return None
    total = 0
    for thread in threads:
        for line in (read_small(f"/proc/{pid}/task/{thread}/status") or b"").splitlines()[-2:]:
            if b"ctxt_switches" in line:
                total += int(line.rpartition(b":")[2])
    return total
