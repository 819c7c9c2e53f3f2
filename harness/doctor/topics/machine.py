"""The machine itself: system, cores, memory against what the stack needs, shared memory, control groups."""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.filesize import decimal

from harness import engines
from harness.doctor.check import Check
from harness.doctor.context import Context
from harness.doctor.findings import Finding, bad, note, ok, warn
from harness.doctor.model import Model
from harness.doctor.probing import number, read

GB = 10**9
# What `dev` and Ray's head hold when idle.
RAY_BYTES = 1.5 * GB
# Docker's default for a container: too small for processes that hand tensors to one another.
SMALL_SHM = 64 * 1024**2
ARCHITECTURES = ("x86_64", "amd64", "aarch64", "arm64")


@dataclass(frozen=True)
class Machine:
    """What this machine is.

    Attributes:
        system: ``Linux``, ``Darwin``; ``distribution`` is the name it gives itself.
        container: the kind of container that we are in, "" for none.
        cores: those that this process may use; memory likewise, limits of a container included.
        shm: bytes of /dev/shm, None where there is none.
        cgroup: version of the control groups, None where they aren't mounted.
        cpu_flags: features of the processor, empty where unknown.
    """

    system: str
    distribution: str
    kernel: str
    architecture: str
    python: str
    container: str
    cores: float
    memory_total: int
    memory_free: int
    shm: int | None
    cgroup: int | None
    cpu_flags: frozenset[str] = frozenset()


def gather() -> Machine:
    """Look at this machine."""
    memory = psutil.virtual_memory()
    limit, used = memory_limit()
    total, free = memory.total, memory.available
    if limit is not None and limit < total:
        total, free = limit, min(free, max(0, limit - used))
    return Machine(
        system=platform.system(),
        distribution=distribution(read("/etc/os-release")) or platform.platform(terse=True),
        kernel=platform.release(),
        architecture=platform.machine(),
        python=platform.python_version(),
        container=container_kind(),
        cores=usable_cores(),
        memory_total=total,
        memory_free=free,
        shm=shutil.disk_usage("/dev/shm").total if Path("/dev/shm").is_dir() else None,
        cgroup=cgroup_version(),
        cpu_flags=cpu_flags(read("/proc/cpuinfo")),
    )


def distribution(os_release: str) -> str:
    """The name that a Linux distribution gives itself."""
    fields = dict(line.partition("=")[::2] for line in os_release.splitlines() if "=" in line)
    return fields.get("PRETTY_NAME", "").strip("\"'")


def container_kind() -> str:
    """The kind of container that this process is in, "" for none."""
    if Path("/.dockerenv").exists():
        return "Docker"
    if Path("/run/.containerenv").exists():
        return "Podman"
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "Kubernetes"
    return os.environ.get("container", "")  # noqa: SIM112  # systemd-nspawn and LXC set it, in small letters


def cgroup_version() -> int | None:
    """2 for the unified hierarchy, 1 for the old ones, None where nothing is mounted."""
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return 2
    return 1 if Path("/sys/fs/cgroup/memory").is_dir() or Path("/sys/fs/cgroup/cpu").is_dir() else None


def memory_limit() -> tuple[int | None, int]:
    """The limit that control groups set to this process and what is used of it; None for no limit."""
    for limit_file, used_file in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        limit = number(read(limit_file))
        if limit is not None:
            return limit, number(read(used_file)) or 0
    return None, 0


def usable_cores() -> float:
    """Cores that this process may use: its affinity, and the share that control groups allow."""
    cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    quota, _, period = read("/sys/fs/cgroup/cpu.max").partition(" ")
    if not quota:
        quota, period = read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
    allowed, per = number(quota), number(period)
    return min(cores, allowed / per) if allowed and per and allowed > 0 else cores


def cpu_flags(cpuinfo: str) -> frozenset[str]:
    """Features of the first processor."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def needed_memory(engine: str, model: Model, workers: int) -> float:
    """Bytes that the stack is going to hold."""
    own = 0.0 if engine == "external" else engines.load(engine).memory_gb * GB
    # Weights are held once; beside them come buffers of about a tenth.
    return RAY_BYTES + workers * RAY_BYTES / 3 + own + 1.1 * model.size


def lacks_avx2(machine: Machine) -> bool:
    """Whether an Intel or AMD processor is known to lack AVX2."""
    intel = machine.architecture in ("x86_64", "amd64")
    return intel and bool(machine.cpu_flags) and "avx2" not in machine.cpu_flags


def decide_system(machine: Machine, engine: str) -> list[Finding]:
    """System, architecture, cores, container."""
    findings = []
    name = f"{machine.distribution}, kernel {machine.kernel}, {machine.architecture}, Python {machine.python}"
    if machine.architecture.lower() not in ARCHITECTURES:
        findings.append(
            bad(
                f"{name}: the engines come for x86_64 and arm64 only.",
                "No inference server can be built here.",
                "make up ENGINE=external OPENAI_BASE_URL=http://HOST:PORT/v1",
            )
        )
    else:
        findings.append(ok(name))
    if machine.system != "Linux":
        findings.append(note("Containers run in a virtual machine of Docker's; its memory and disk count."))
    elif "microsoft" in machine.kernel.lower():
        findings.append(note("This is WSL: a clone below /mnt/c is slow; keep it in the Linux file system."))
    if machine.container:
        findings.append(
            note(
                f"This is the inside of a container ({machine.container}).",
                "With the host's Docker socket, folders that are mounted would be the host's and not these.",
            )
        )
    if machine.cores < 2:
        findings.append(
            warn(
                f"{machine.cores:.3g} core for everything.",
                "The engine and Ray share it; expect long waits at the start.",
            )
        )
    else:
        findings.append(ok(f"{machine.cores:.3g} cores"))
    if engine == "vllm" and lacks_avx2(machine):
        findings.append(
            bad(
                "This processor has no AVX2, which vLLM's build for CPUs needs.",
                "The server would end with an illegal instruction.",
                "make up ENGINE=llamacpp",
            )
        )
    return findings


def decide_memory(machine: Machine, needed: float, running: bool) -> list[Finding]:
    """Memory against what the stack needs; ``running``: it holds its memory already."""
    have = f"{decimal(machine.memory_free)} of {decimal(machine.memory_total)} memory free"
    mend = "make up CONTEXT=1024   # or a smaller MODEL, or end other programs"
    if running:
        if machine.memory_free < 0.05 * machine.memory_total:
            return [warn(f"{have} while the stack is up.", "The kernel ends processes when nothing is left.", mend)]
        return [ok(f"{have} (the stack is up)")]
    if machine.memory_total < needed:
        consequence = "The kernel would end the server or Ray in the middle of the work (exit code 137)."
        return [bad(f"{have}; the stack needs about {decimal(int(needed))}.", consequence, mend)]
    if machine.memory_free < needed:
        consequence = "Other programs hold the rest; the kernel may end the server or Ray (exit code 137)."
        return [warn(f"{have}; the stack needs about {decimal(int(needed))}.", consequence, mend)]
    return [ok(f"{have}; the stack needs about {decimal(int(needed))}")]


def decide_kernel(machine: Machine) -> list[Finding]:
    """Shared memory and control groups."""
    if machine.system != "Linux":
        return []
    findings = []
    if machine.shm is None:
        findings.append(
            bad(
                "There is no /dev/shm.",
                "Python's multiprocessing, Ray and NCCL fail without it.",
                "mount -t tmpfs tmpfs /dev/shm",
            )
        )
    elif machine.shm <= SMALL_SHM:
        where = "docker run --shm-size=2g …" if machine.container else "mount -o remount,size=2g /dev/shm"
        findings.append(
            warn(
                f"/dev/shm has {decimal(machine.shm)} here.",
                "Data loaders, Ray or NCCL that run here, not in the stack's containers, end with a bus error.",
                where,
            )
        )
    else:
        findings.append(ok(f"/dev/shm {decimal(machine.shm)} (each of the stack's containers has 1 GB of its own)"))
    if machine.cgroup is None and not machine.container:
        findings.append(
            bad(
                "No control groups are mounted in /sys/fs/cgroup.",
                "The Docker daemon can't run containers.",
                "mount -t cgroup2 none /sys/fs/cgroup",
            )
        )
    elif machine.cgroup is not None:
        findings.append(ok(f"control groups version {machine.cgroup}"))
    return findings


def _system(context: Context) -> list[Finding]:
    return decide_system(gather(), context.settings.engine)


def _memory(context: Context) -> list[Finding]:
    machine, settings = gather(), context.settings
    engine = context.engine()
    running = any(project == settings.project for _, project in engine.published.values())
    if not context.runs_stacks:
        return [note(f"{decimal(machine.memory_free)} of {decimal(machine.memory_total)} memory free")]
    return decide_memory(machine, needed_memory(settings.engine, context.model(), settings.workers), running)


def _kernel(context: Context) -> list[Finding]:  # noqa: ARG001  # every check is called alike
    return decide_kernel(gather())


CHECKS = (Check("machine.system", _system), Check("machine.memory", _memory), Check("machine.kernel", _kernel))
