"""Samples every process that is meant, twice, and leaves none of them stopped."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from harness import __version__
from harness.processes.sampling import facts, file_locks, gpu, inside, roles, sleeps, thread_locks, turns
from harness.processes.sampling.aside import Logs, recorder_of
from harness.processes.sampling.dumper import DENIED, MISSING, Dumped, Dumper, find_py_spy
from harness.processes.sampling.find import find
from harness.processes.sampling.model import NodeAnswer, ProcessEntry, SampleEntry, SampleRequest
from harness.processes.sampling.tasks import await_chains
from harness.processes.sampling.tensors import with_sizes
from harness.processes.sampling.wake import wake
from harness.processes.stat import TICKS_PER_SECOND, read_stat

_HELD_SECONDS = 1.0
# Of so many who compute, so many further samples; and what share of a core counts as that.
_CLOSER_LOOKS, _MORE_SAMPLES, _SHORT_GAP, _COMPUTING_SHARE = 8, 3, 0.3, 0.1
# The kernel counts in ticks, and having its stacks read costs a process part of one: less than this may be nothing.
_COMPUTING_SECONDS = 3 / TICKS_PER_SECOND
_ENDED = "it ended before it could be sampled"


@dataclasses.dataclass
class _Asleep:
    """A process that slept while its stacks were read.

    Attributes:
        at: when, by ``time.monotonic()``.
        turns: how often each of its threads had run by then.
        threads: those that have frames of Python.
        file: where the stacks are.
    """

    at: float
    turns: dict[int, turns.Turns]
    threads: frozenset[int]
    file: str = ""


def take(request: SampleRequest) -> NodeAnswer:
    """Sample what the request names in this PID namespace; what can't be sampled is in the answer with its reason."""
    return Sampling(request).run()


class Sampling:
    """One request being worked on; ``stop`` breaks it off from another thread, and nothing stays stopped either way.

    Attributes:
        answer: what is known so far.
        begun: set once dumpers run; from then on whoever asked has nothing to do but wait.
    """

    def __init__(self, request: SampleRequest) -> None:
        self.begun = threading.Event()
        self._request = request
        self._dumper = Dumper(seconds=request.dump_seconds, locals_=request.locals, native=request.native)
        self._broken_off = threading.Event()
        self._unclean: set[int] = set()
        self._asleep: dict[int, _Asleep] = {}
        self._first_sample = 0.0
        self.answer = NodeAnswer(host=facts.host(), boot_id=facts.boot_id(), pid_namespace=facts.pid_namespace())

    def stop(self) -> None:
        """End all dumpers and take no further sample."""
        self._broken_off.set()
        self._dumper.stop()

    def run(self) -> NodeAnswer:
        """Find and sample."""
        answer, request = self.answer, self._request
        answer.environment = {"drydock": __version__, "py_spy": find_py_spy() or "not installed"}
        # A dumper that hangs must not keep the answer from those that don't.
        limit = threading.Timer(request.timeout_seconds, self._too_late)
        limit.daemon = True
        limit.start()
        try:
            found = find(request)
            answer.processes, answer.left_out = found.entries, found.left_out
            living = [e for e in found.entries if not e.missing and not e.error and e.state != "Z"]
            # Tables of sockets may be long, and the dumpers leave time for them.
            listening = threading.Thread(target=_see_whom_they_know, args=(living,))
            listening.start()
            self._first_sample = time.monotonic()
            for number in range(1, request.samples + 1):
                if number > 1:
                    self._broken_off.wait(request.gap_seconds)
                if self._broken_off.is_set():
                    break
                self._round(living, number)
            self._look_closer(living)
            listening.join()
        finally:
            self.begun.set()
            limit.cancel()
            self._dumper.stop()
            for entry in answer.processes:
                if entry.pid in self._unclean:
                    _release(entry)
        answer.processes = [e for e in answer.processes if not (roles.is_idle(e.command) and _ended_unseen(e))]
        for entry in answer.processes:
            _finish(entry)
        self._look_aside()
        _explain(answer)
        return answer

    def _look_closer(self, living: list[ProcessEntry]) -> None:
        """Some more samples of whoever computes: two of a long computation are often in one function by chance."""
        for number in range(self._request.samples + 1, self._request.samples + 1 + _MORE_SAMPLES):
            computing = [entry for entry in living if computes(entry)][:_CLOSER_LOOKS]
            if not computing or self._broken_off.wait(_SHORT_GAP):
                return
            self._round(computing, number)

    def _look_aside(self) -> None:
        """Logs and recorders of what was sampled."""
        logs = Logs()
        for entry in self.answer.processes:
            if entry.missing or entry.state in ("Z", "X") or self._broken_off.is_set():
                continue
            self._follow_tasks(entry)
            self._follow_locks(entry)
            logs.own(entry)
            if entry.role == "rank" and (found := recorder_of(entry, facts.environ(entry.pid))) is not None:
                entry.recorder = found[0] if found[0] not in self.answer.dumps else f"{entry.pid}/{found[0]}"
                self.answer.dumps[entry.recorder] = found[1]
        for pattern in logs.named(self._request.logs):
            self.answer.notes.append(f"LOGS={pattern} matches no file on {self.answer.host}")
        self.answer.dumps |= logs.files

    def _follow_tasks(self, entry: ProcessEntry) -> None:
        last = next((sample.file for sample in reversed(entry.samples) if sample.file), None)
        by_all_means = self._request.tasks and entry.state not in ("T", "t", "D")
        found = await_chains(entry.pid, entry.python, self.answer.dumps.get(last or ""), by_all_means=by_all_means)
        if found.content is not None:
            entry.tasks = f"{entry.pid}.tasks.json"
            self.answer.dumps[entry.tasks] = found.content
            if found.seconds:
                self.answer.notes.append(f"await chains of {entry.pid}: it was held up for {found.seconds:.1f} s")
        elif self._request.tasks and last is not None and b"asyncio" in self.answer.dumps[last]:
            self.answer.notes.append(f"await chains of {entry.pid} couldn't be had: {found.error}")

    def _follow_locks(self, entry: ProcessEntry) -> None:
        last = next((sample.file for sample in reversed(entry.samples) if sample.file), None)
        if last is not None and last.endswith(".json") and entry.state == "S":
            found = thread_locks.waiting(entry.pid, self.answer.dumps[last])
            entry.locks = [one.as_dict() for one in found]

    def _too_late(self) -> None:
        self.answer.notes.append(f"broke off after {self._request.timeout_seconds:g} s; not every sample was taken")
        self.stop()

    def _round(self, entries: list[ProcessEntry], number: int) -> None:
        """One sample of each."""
        busy = gpu.utilisation()
        started = time.monotonic()
        # py-spy is its own process: a few more of them than cores keep the cores busy while others start.
        pool = ThreadPoolExecutor(max_workers=max(1, min(len(entries), 2 * (os.cpu_count() or 2))))
        try:
            jobs = [(entry, pool.submit(self._sample, entry)) for entry in entries]
            self.begun.set()
            for entry, job in jobs:
                sample, content = job.result()
                sample.gpu_percent = busy.get(entry.pid)
                entry.samples.append(sample)
                if content is not None:
                    ending = "txt" if sample.way == "faulthandler" else "json"
                    sample.file = f"{entry.pid}.{ending}" if number == 1 else f"{entry.pid}.{number}.{ending}"
                    self.answer.dumps[sample.file] = content
                    if entry.pid in self._asleep:
                        self._asleep[entry.pid].file = sample.file
        except BaseException:
            self.stop()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        self.answer.environment.setdefault("sampling_seconds", []).append(round(time.monotonic() - started, 3))

    def _sample(self, entry: ProcessEntry) -> tuple[SampleEntry, bytes | None]:
        look = _settled(entry.pid)
        now = time.monotonic()
        at = round(now - self._first_sample, 4)
        if look is None or look.start_ticks != entry.start_ticks:
            return SampleEntry(at=at, way="proc", error=_ENDED), None
        sample = SampleEntry(
            way="proc",
            at=at,
            state=look.state,
            cpu_seconds=look.cpu_seconds,
            read_bytes=look.read_bytes,
            write_bytes=look.write_bytes,
            switches=look.switches,
            main_turns=_main_turns(look, entry.pid),
            sleeps={str(thread): round(at + left, 2) for thread, left in sleeps.ends(entry.pid, look.threads).items()},
        )
        earlier = self._asleep.get(entry.pid)
        if earlier is not None and turns.unmoved(earlier.turns, look.threads, earlier.threads, now - earlier.at):
            # Not one instruction of its Python code has run since: the same stacks, without disturbing it again.
            sample.way, sample.file = "unmoved", earlier.file
            return sample, None
        dumped = self._dump(entry, look, now)
        if dumped.content is not None:
            sample.way = dumped.way
        sample.error = dumped.error
        return sample, dumped.content

    def _dump(self, entry: ProcessEntry, look: facts.Look, at: float) -> Dumped:
        """Its stacks by whatever way is open."""

        def undisturbed(content: bytes) -> bool:
            shown = turns.threads_in(content)
            if shown is None or not turns.slept(look.threads, turns.of_process(entry.pid), shown):
                return False
            self._asleep[entry.pid] = _Asleep(at, look.threads, shown)
            return True

        self._asleep.pop(entry.pid, None)
        # Without stopping it, py-spy can't tell which thread is which before Python 3.11.
        sleeps = look.state == "S" and entry.python != "3.10"
        dumped = self._dumper.dump(entry.pid, look.state, undisturbed if sleeps else None)
        if dumped.unclean:
            self._unclean.add(entry.pid)
        if dumped.content is None and look.state not in ("T", "t", "D") and not self._broken_off.is_set():
            dumped = _by_itself(entry) or dumped
        if self._request.locals and dumped.content is not None and dumped.way != "faulthandler":
            with contextlib.suppress(ValueError, AttributeError, TypeError):
                content, entry.blocked_call = with_sizes(dumped.content, entry.pid)
                dumped = dataclasses.replace(dumped, content=content)
        return dumped


def _by_itself(entry: ProcessEntry) -> Dumped | None:
    """Have it print its stacks, where it is known that it can."""
    content = inside.stacks(entry.pid, facts.status_fields(entry.pid))
    return None if content is None else Dumped("faulthandler", content)


def _settled(pid: int) -> facts.Look | None:
    """Where it stands. Another way in may hold it for a moment as well; a debugger holds it for longer."""
    until = time.monotonic() + _HELD_SECONDS
    while (look := facts.look(pid)) is not None and look.state == "t" and time.monotonic() < until:
        time.sleep(0.01)
    return look


def _see_whom_they_know(entries: list[ProcessEntry]) -> None:
    """Who listens, and who belongs to a process group."""
    found = facts.listening([entry.pid for entry in entries])
    for entry in entries:
        entry.listens = entry.pid in found
        entry.backends = facts.group_backends(entry.pid)


def _main_turns(look: facts.Look, pid: int) -> int | None:
    main = look.threads.get(pid)
    return None if main is None or main.nanoseconds is None else main.taken


def computes(entry: ProcessEntry) -> bool:
    """Whether it used a good part of a core from its first sample to its last."""
    timed = [sample for sample in entry.samples if sample.file and sample.cpu_seconds is not None]
    if len(timed) < 2:
        return False
    span = timed[-1].at - timed[0].at
    used = (timed[-1].cpu_seconds or 0.0) - (timed[0].cpu_seconds or 0.0)
    return used >= _COMPUTING_SECONDS and used > _COMPUTING_SHARE * span


def _ended_unseen(entry: ProcessEntry) -> bool:
    """Whether it is gone by now and left no stacks."""
    return not any(sample.file for sample in entry.samples) and read_stat(entry.pid) is None


def _release(entry: ProcessEntry) -> None:
    """Wake what a dumper that was ended has left stopped; what was stopped before stays so."""
    before = entry.samples[0].state if entry.samples else entry.state
    stat = read_stat(entry.pid)
    if stat is None or stat.start_ticks != entry.start_ticks or before == "T":
        return
    # D: frozen (`docker pause`) or asleep in the kernel, the dumper's stop still to come; waking takes that back.
    if facts.state_of_any_thread(entry.pid, stat) not in ("T", "D"):
        return
    try:
        wake(entry.pid)
    except OSError:
        entry.error = f"its dumper left it stopped, and this user may not wake it: kill -CONT {entry.pid}"


def _finish(entry: ProcessEntry) -> None:
    """What is said of a process once all its samples are there."""
    if entry.missing or entry.state == "Z":
        return
    stat = read_stat(entry.pid)
    last = entry.samples[-1] if entry.samples else None
    if stat is None or stat.start_ticks != entry.start_ticks:
        entry.state, entry.error = "X", entry.error or "it ended while it was being sampled"
        return
    if last is not None and last.state:
        entry.state = last.state
    # Where it sleeps tells a lock on a file, which no stack shows.
    if entry.state in ("D", "S") or not any(sample.file for sample in entry.samples):
        with contextlib.suppress(OSError):
            entry.wchan, entry.syscall = facts.kernel_place(entry.pid)
            entry.lock_holder = file_locks.holder_of(entry.pid) if "lock" in entry.wchan else ""
    if last is not None and not entry.error and not any(sample.file for sample in entry.samples):
        entry.error = last.error


def _explain(answer: NodeAnswer) -> None:
    """What a person can do where reading was denied, or the dumper isn't there."""
    errors = [sample.error for entry in answer.processes for sample in entry.samples if sample.file is None]
    if DENIED in errors:
        answer.notes.append(denied_note(answer.host, os.geteuid(), _ptrace_scope(), _may_trace()))
    if MISSING in errors:
        answer.notes.append(f"{answer.host}: py-spy is not installed there: python -m pip install py-spy")


def denied_note(host: str, uid: int, scope: int | None, may_trace: bool) -> str:
    """Why reading other processes is denied, and the setting or command that changes it."""
    if uid == 0 and not may_trace:
        how = "this container lacks CAP_SYS_PTRACE: docker run --cap-add SYS_PTRACE …, or in Kubernetes "
        return f"{host}: {how}kubectl debug --profile=general --target=CONTAINER"
    if scope == 3:
        return f"{host}: kernel.yama.ptrace_scope=3 forbids reading any process until the next boot, to root as well"
    if uid != 0:
        rest = f" (kernel.yama.ptrace_scope={scope})" if scope else ""
        return f"{host}: reading other processes is denied to this user{rest}: run it as root, sudo -E make hang-dump"
    return f"{host}: reading some processes is denied, to root as well: a security module (AppArmor, SELinux, seccomp)?"


def _ptrace_scope() -> int | None:
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _may_trace() -> bool:
    """Whether this process has CAP_SYS_PTRACE (bit 19)."""
    try:
        return bool(int(facts.status_fields(os.getpid())["CapEff"], 16) >> 19 & 1)
    except (KeyError, ValueError):
        return False
