"""What the kernel allows: looking into processes, open files, processes, memory; and whether the clock is right."""

from __future__ import annotations

import ctypes
import datetime
import os
import re
import resource
from dataclasses import dataclass
from pathlib import Path

from harness.doctor.check import Check
from harness.doctor.context import Context
from harness.doctor.findings import Finding, bad, note, ok, warn
from harness.doctor.probing import number, read

# Stage 3 opens a few hundred connections at once, and Ray a socket or more for each worker.
ENOUGH_FILES = 4096
FEW_PROCESSES = 500
# A process of PyTorch has some 300 mappings, one that loads a large model by mmap many thousands.
ENOUGH_MAPPINGS = 65530
# Stalled for want of memory, in percent of the last minute.
STALLED_PERCENT = 10.0
# No release of Drydock is older; a clock before it is wrong.
RELEASED = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
SKEW_SECONDS = 5.0
_TIME_ERROR = 5  # what adjtimex(2) returns while nothing keeps the clock right
_CAP_SYS_PTRACE = 19


@dataclass(frozen=True)
class Limits:
    """What this process and its children may use.

    Attributes:
        files: open files, the limit now and how far this user may raise it; None for no limit.
        memlock: bytes that may be kept from being swapped; None for no limit.
        infiniband: there is an adapter, which needs such memory.
        processes_left: how many more processes and threads may be started; None where nothing limits them.
        mappings: of memory, for one process; None where it isn't known.
        overcommit: the kernel's policy: 0 and 1 promise more memory than there is, 2 doesn't.
    """

    files: int | None
    files_at_most: int | None
    memlock: int | None
    infiniband: bool
    processes_left: int | None
    mappings: int | None
    overcommit: int | None


@dataclass(frozen=True)
class Pressure:
    """Whether memory runs out, or did.

    Attributes:
        stalled: percent of the last minute in which nothing ran for want of memory; None where the kernel doesn't say.
        killed: processes that the kernel ended for want of memory since it started.
    """

    stalled: float | None
    killed: int


@dataclass(frozen=True)
class Clock:
    """The clock.

    Attributes:
        now: what it says.
        kept: something keeps it right; None where the kernel doesn't say.
        engine: what the Docker engine's clock said at the same moment; None where it can't be asked.
    """

    now: datetime.datetime
    kept: bool | None = None
    engine: datetime.datetime | None = None


# --- looking into processes


def decide_tracing(scope: int | None, *, privileged: bool) -> list[Finding]:
    """Whether stacks of processes on this machine can be taken: Yama's rule, and who we are.

    Args:
        scope: /proc/sys/kernel/yama/ptrace_scope; None where the kernel has no Yama.
        privileged: this process has CAP_SYS_PTRACE.
    """
    if scope is None or scope == 0:
        return [ok("processes of the same user can be looked into (no Yama, or ptrace_scope 0)")]
    if scope == 3:
        return [
            bad(
                "Yama's ptrace_scope is 3: nobody may look into another process, root included.",
                "hang-dump and attach see no stack; only a restart of the machine changes it.",
                "remove kernel.yama.ptrace_scope=3 from /etc/sysctl.d, then sudo reboot",
            )
        ]
    if privileged:
        return [ok(f"Yama's ptrace_scope is {scope}; this user may look into every process all the same")]
    return [
        warn(
            f"Yama's ptrace_scope is {scope}: this user may not look into processes that it didn't start from here.",
            "hang-dump of processes on this machine sees no stacks; in the stack's containers it does.",
            "sudo -E make hang-dump   # for one dump\n"
            "sudo sysctl kernel.yama.ptrace_scope=0   # until the next restart of the machine",
        )
    ]


def may_trace(status: str, uid: int) -> bool:
    """Whether a process has CAP_SYS_PTRACE, by its /proc/PID/status."""
    match = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return bool(int(match[1], 16) >> _CAP_SYS_PTRACE & 1) if match else uid == 0


def _tracing(context: Context) -> list[Finding]:  # noqa: ARG001
    scope = number(read("/proc/sys/kernel/yama/ptrace_scope"))
    return decide_tracing(scope, privileged=may_trace(read("/proc/self/status"), os.geteuid()))


# --- limits


def gather_limits() -> Limits:
    """Ask the kernel for the limits of this process, which its children inherit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Limits(
        files=_limit(soft),
        files_at_most=_limit(hard),
        memlock=_limit(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]),
        infiniband=any(Path("/sys/class/infiniband").glob("*")),
        processes_left=_processes_left(),
        mappings=number(read("/proc/sys/vm/max_map_count")),
        overcommit=number(read("/proc/sys/vm/overcommit_memory")),
    )


def _limit(value: int) -> int | None:
    return None if value == resource.RLIM_INFINITY else value


def _processes_left() -> int | None:
    """By the control group, and by the user's own limit; the latter doesn't hold for root."""
    left = []
    group = re.search(r"^0::(/.*)$", read("/proc/self/cgroup"), re.MULTILINE)
    own = Path("/sys/fs/cgroup") / group[1].lstrip("/") if group else Path("/sys/fs/cgroup/pids")
    for folder in (own, Path("/sys/fs/cgroup")):
        most, used = number(read(folder / "pids.max")), number(read(folder / "pids.current"))
        if most is not None and used is not None:
            left.append(most - used)
    most_of_user = _limit(resource.getrlimit(resource.RLIMIT_NPROC)[0])
    if most_of_user is not None and os.getuid() != 0:
        left.append(most_of_user - _threads_of(os.getuid()))
    return min(left, default=None)


def _threads_of(uid: int) -> int:
    count = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if folder.stat().st_uid == uid:
                count += len(os.listdir(folder / "task"))
        except OSError:
            continue
    return count


def decide_limits(limits: Limits) -> list[Finding]:
    """What is too small for a few hundred runs at once, or for a training."""
    findings = []
    if limits.files is not None and limits.files < ENOUGH_FILES:
        more = limits.files_at_most is None or limits.files_at_most > limits.files
        goal = min(limits.files_at_most or 65536, 65536)
        findings.append(
            warn(
                f"A process may open {limits.files:,} files at once.",
                "Hundreds of runs at once need a connection each: “Too many open files”, or calls that wait.",
                f"ulimit -n {goal}   # in this shell, then the command again"
                if more
                else "* - nofile 65536   # this line in /etc/security/limits.conf; then log in again",
            )
        )
    if limits.processes_left is not None and limits.processes_left < FEW_PROCESSES:
        make = bad if limits.processes_left < FEW_PROCESSES // 10 else warn
        findings.append(
            make(
                f"Only {max(0, limits.processes_left):,} more processes and threads may be started here.",
                "“Resource temporarily unavailable”, “can't start new thread”: Ray's workers and PyTorch end at start.",
                "ulimit -u; cat /sys/fs/cgroup/pids.max   # which one limits; a container has docker run --pids-limit",
            )
        )
    if limits.infiniband and limits.memlock is not None:
        findings.append(
            bad(
                f"There is InfiniBand, and a process may lock {limits.memlock // 1024:,} kB of memory only.",
                "NCCL fails to register memory, and ends or goes over TCP.",
                "ulimit -l unlimited   # in limits.conf for good; for a container: --ulimit memlock=-1",
            )
        )
    if limits.mappings is not None and limits.mappings < ENOUGH_MAPPINGS:
        findings.append(
            warn(
                f"A process may have {limits.mappings:,} mappings of memory.",
                "Large models and Ray's object store fail with “Cannot allocate memory” while memory is free.",
                f"sudo sysctl vm.max_map_count={ENOUGH_MAPPINGS}",
            )
        )
    if limits.overcommit == 2:
        findings.append(
            warn(
                "The kernel promises no more memory than there is (vm.overcommit_memory 2).",
                "PyTorch, Ray and CUDA reserve far more than they use, and fail with “Cannot allocate memory”.",
                "sudo sysctl vm.overcommit_memory=0",
            )
        )
    files = "any number of" if limits.files is None else f"{limits.files:,}"
    return findings or [ok(f"limits: {files} open files, processes, mappings and locked memory will do")]


def _limits(context: Context) -> list[Finding]:  # noqa: ARG001
    return decide_limits(gather_limits())


# --- want of memory


def gather_pressure() -> Pressure:
    """Ask the kernel whether memory is short now, and whether it was."""
    stalled = re.search(r"^full .*?avg60=([\d.]+)", read("/proc/pressure/memory"), re.MULTILINE)
    killed = re.search(r"^oom_kill (\d+)$", read("/proc/vmstat"), re.MULTILINE)
    return Pressure(float(stalled[1]) if stalled else None, int(killed[1]) if killed else 0)


def decide_pressure(pressure: Pressure) -> list[Finding]:
    """Whether memory is short now; that it once was is worth knowing when something has vanished."""
    findings = []
    if pressure.stalled is not None and pressure.stalled > STALLED_PERCENT:
        findings.append(
            bad(
                f"In the last minute this machine stood still for want of memory {pressure.stalled:.0f} % of the time.",
                "Everything is slow, time-outs strike, and the kernel is about to end something.",
                "ps aux --sort=-rss | head   # who holds it",
            )
        )
    if pressure.killed:
        findings.append(
            warn(
                f"The kernel has ended {pressure.killed:,} process{'es' * (pressure.killed > 1)} for want of memory "
                "since this machine was started.",
                "A worker or server that vanished (exit code 137, “actor died”) may be one of them.",
                "sudo dmesg -T | grep -i 'killed process'   # which, and when",
            )
        )
    return findings or [ok("no want of memory, now or since the machine was started")]


def _pressure(context: Context) -> list[Finding]:  # noqa: ARG001
    return decide_pressure(gather_pressure())


# --- clock


def gather_clock(context: Context) -> Clock:
    """Ask the kernel, and the engine, whose clock is another one where it runs in a virtual machine or elsewhere."""
    engine = context.engine()
    theirs = None
    if engine.answers:
        theirs = engine_time(str(engine.client.info().get("SystemTime") or ""))
    return Clock(datetime.datetime.now(datetime.timezone.utc), _is_kept(), theirs)


def engine_time(text: str) -> datetime.datetime | None:
    """The time that ``docker info`` tells: RFC 3339 with nine digits after the second."""
    match = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)$", text)
    if match is None:
        return None
    fraction = (match[2] or "")[:7]
    zone = "+00:00" if match[3] == "Z" else match[3]
    return datetime.datetime.fromisoformat(f"{match[1]}{fraction.ljust(7, '0') if fraction else ''}{zone}")


def _is_kept() -> bool | None:
    try:
        # All zero: change nothing, only tell. The structure has 208 bytes on 64 bits.
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _TIME_ERROR


def decide_clock(clock: Clock, *, in_container: bool) -> list[Finding]:
    """A clock that is wrong makes certificates invalid and archives “not valid yet”."""
    said = clock.now.strftime("%Y-%m-%d %H:%M:%S UTC")
    if clock.now < RELEASED:
        return [
            bad(
                f"The clock says {said}, which is before this release of Drydock.",
                "Certificates and package lists aren't valid yet, so nothing can be downloaded.",
                "sudo timedatectl set-ntp true   # or: sudo date -s '…'",
            )
        ]
    findings = []
    if clock.engine is not None and (skew := abs((clock.engine - clock.now).total_seconds())) > SKEW_SECONDS:
        findings.append(
            bad(
                f"The Docker engine's clock is {skew:,.0f} s away from this machine's.",
                "In its containers certificates and package lists may be invalid, and times in logs don't fit.",
                "restart Docker   # Docker Desktop's clock stands still while a laptop sleeps",
            )
        )
    if clock.kept is False:
        text = "The kernel says that nothing keeps the clock right."
        findings.append(
            note(text, "In a container that is the machine's business.")
            if in_container
            else warn(
                text,
                "With several machines, logs and dumps can't be put in order; a clock that drifts breaks certificates.",
                "sudo timedatectl set-ntp true",
            )
        )
    return findings or [ok(f"clock: {said}")]


def _clock(context: Context) -> list[Finding]:
    from harness.doctor.topics.machine import container_kind

    return decide_clock(gather_clock(context), in_container=bool(container_kind()))


CHECKS = (
    Check("machine.tracing", _tracing),
    Check("machine.limits", _limits),
    Check("machine.pressure", _pressure),
    Check("machine.clock", _clock),
)
