"""Every process that descends from this one, from birth to end."""

from __future__ import annotations

import ctypes
import heapq
import itertools
import os
import select
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from harness.processes import exits
from harness.processes.births import Births
from harness.processes.exits import Exit
from harness.processes.stat import Stat, read_command, read_peak_memory, read_stat, started_at
from harness.processes.tree import descendants_of, is_running, read_stats

# Seconds between two looks for new processes: while some were found lately, and otherwise.
_LOOK_WHEN_BUSY = 0.001
_LOOK_WHEN_CALM = 0.010
_BUSY_FOR = 0.05
# A new process is looked at again after these seconds of life: it may execute another program meanwhile.
_YOUNG = (0.002, 0.01, 0.05, 0.25)
# All are measured once a second, less often where that would take more than a fiftieth of the time.
_MEASURE_EVERY = 1.0
_MEASURE_SHARE = 50

# From opening the dynamic linker to having the new arguments.
_EXEC_TAKES = 0.0005

_PR_SET_CHILD_SUBREAPER = 36


@dataclass(eq=False)
class Tracked:
    """A descendant, and what is known of it so far.

    Attributes:
        command: its arguments when they were last read.
        command_is_parents: the arguments were read before it executed a program of its own.
        ended: seconds since the epoch at which we noticed its end.
        unknown: why ``exit`` is None though it has ended, or will be.
        peak_memory: bytes, of the program it ran when it was last measured.
        cpu_seconds: without its children's; complete where we saw it as a zombie.
        measured: seconds since the epoch of the last measurement.
        seen_to_end: its stat line was read after its end, so name, CPU time and "no exec" are final.
        pidfd: None where no handle could be had; it is then looked at in each turn.
    """

    pid: int
    ppid: int
    name: str
    start_ticks: int
    started: float
    command: list[str] | None = None
    command_is_parents: bool = False
    ended: float | None = None
    exit: Exit | None = None
    unknown: str = ""
    peak_memory: int | None = None
    cpu_seconds: float | None = None
    measured: float | None = None
    seen_to_end: bool = False
    pidfd: int | None = None

    def note(self, stat: Stat) -> None:
        """Take over what a stat line tells; its name and CPU time stay readable after its end."""
        if self.command is not None and self.command_is_parents and stat.has_exec_ed:
            self.command = None  # what was read is the parent's; its own comes with the next reading, if there is one
        self.name = stat.name
        self.cpu_seconds = stat.cpu_seconds
        self.measured = time.time()
        self.seen_to_end = stat.is_zombie

    def measure(self) -> None:
        """Read again what changes while it lives."""
        stat = read_stat(self.pid)
        if stat is None or stat.start_ticks != self.start_ticks:
            return
        command = read_command(self.pid)
        if not stat.has_exec_ed:
            # Were these its parent's arguments, or did it execute a program of its own in between?
            again = read_stat(self.pid)
            if again is not None and again.has_exec_ed:
                stat, command = again, read_command(self.pid)
        peak = read_peak_memory(self.pid)
        self.note(stat)
        if command is not None:
            self.command, self.command_is_parents = command, not stat.has_exec_ed
        if peak is not None:
            self.peak_memory = peak

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, unless it is gone or belongs to another user."""
        try:
            if self.pidfd is not None:
                signal.pidfd_send_signal(self.pidfd, number)
            elif is_running(self.pid, self.start_ticks):
                os.kill(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass


class Watcher:
    """Finds the descendants of this process and follows each to its end.

    Call ``turn`` again and again. It sleeps until something may have happened, at most some milliseconds.

    Args:
        on_end: called once for each descendant, when its end is noticed and its exit status is known or lost.

    Attributes:
        alive: descendants whose end hasn't been noticed, by pid.
        follows_orphans: whether this process inherits its descendants' orphans.
    """

    def __init__(self, on_end: Callable[[Tracked], None]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.follows_orphans: bool = libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        self.alive: dict[int, Tracked] = {}
        self._on_end = on_end
        self._me = os.getpid()
        self._by_pidfd: dict[int, Tracked] = {}
        self._without_pidfd: set[Tracked] = set()
        self._unreadable: set[Tracked] = set()
        # Zombies that are done with but still stand in /proc: pid and start time.
        self._recorded: dict[int, int] = {}
        self._young: list[tuple[float, int, Tracked]] = []
        self._order = itertools.count()
        self._newest: Tracked | None = None
        self._busy_until = 0.0
        self._next_measure = 0.0
        self._births = Births()
        self._epoll = select.epoll()
        if self._births.exec_descriptor is not None:
            self.wake_on(self._births.exec_descriptor)

    def close(self) -> None:
        """Give all descriptors back; nothing is followed any more."""
        for pidfd in self._by_pidfd:
            os.close(pidfd)
        self._by_pidfd.clear()
        self._births.close()
        self._epoll.close()

    @property
    def unseen(self) -> int | None:
        """How many tasks (processes or threads, ours or others') were gone before we could look; None: not counted."""
        return self._births.unseen

    def wake_on(self, descriptor: int) -> None:
        """Let ``turn`` return when this descriptor becomes readable."""
        self._epoll.register(descriptor, select.EPOLLIN)

    def turn(self) -> bool:
        """Wait a little, then take in all that happened; returns whether this process still has children.

        Without children there are no descendants either, for orphans would be our children.
        """
        woken = {descriptor for descriptor, _ in self._epoll.poll(self._patience())}
        executed = self._births.exec_descriptor in woken
        if executed:
            self._births.drain()
            self.look()
        # A zombie's status has to be read before its parent asks for it, so this comes first.
        for tracked in [self._by_pidfd[fd] for fd in woken if fd in self._by_pidfd]:
            self._settle(tracked)
        for tracked in [*self._without_pidfd, *self._unreadable]:
            self._settle(tracked)
        has_children = self._reap()
        if executed:
            self._await_exec()
        self.look()
        self._measure()
        return has_children

    def settle_all(self) -> None:
        """Take in every end, noticed or not: who has no parent left to wait for has no event left to come either."""
        for tracked in [*self.alive.values()]:
            self._settle(tracked)

    def look(self, *, everything: bool = False) -> None:
        """Find new descendants: among the numbers given since the last look, or among all processes."""
        numbers = self._births.since_last_look()
        if numbers is None or not self._try(numbers):
            everything = True
        if everything:
            stats = read_stats()
            self._recorded = {pid: start for pid, start in self._recorded.items() if pid in stats}
            self._adopt_ours({pid: (stat, None) for pid, stat in stats.items() if self._is_new(stat)})

    def _try(self, numbers: Iterable[int]) -> bool:
        """Follow those of our descendants that have one of these numbers; False when they couldn't all be tried."""
        handles: dict[int, int] = {}
        complete = True
        # First a handle on each, for with it even one that is gone in a moment still tells how it ended.
        for pid in numbers:
            try:
                pidfd = exits.open_pidfd(pid)
            except ProcessLookupError:
                self._births.nobody_has(pid)
                continue
            except OSError:
                # No handles to be had. A list of /proc tells processes from threads, too, but not who was gone before.
                complete = False
                self._births.give_up_counting()
                break
            if pidfd is not None:
                handles[pid] = pidfd
            elif os.path.exists(f"/proc/{pid}"):
                self._births.somebody_has(pid)  # a thread
            else:
                self._births.nobody_has(pid)
        found: dict[int, tuple[Stat, int | None]] = {}
        for pid, pidfd in handles.items():
            stat = read_stat(pid)
            if stat is None or stat.state == "X":
                self._births.nobody_has(pid)  # gone or just going, and nothing tells any more whose child it was
            else:
                self._births.somebody_has(pid)
            if stat is not None and self._is_new(stat):
                found[pid] = (stat, pidfd)
            else:
                os.close(pidfd)
        self._adopt_ours(found)
        return complete

    def _is_new(self, stat: Stat) -> bool:
        if stat.pid == self._me or self._recorded.get(stat.pid) == stat.start_ticks:
            return False
        known = self.alive.get(stat.pid)
        return known is None or known.start_ticks != stat.start_ticks

    def _adopt_ours(self, found: dict[int, tuple[Stat, int | None]]) -> None:
        """Follow those that descend from us, and let go of the others' handles."""
        if not found:
            return
        ours = descendants_of({self._me, *self.alive}, {pid: stat for pid, (stat, _) in found.items()})
        for pid in ours:
            stat, pidfd = found.pop(pid)
            self._adopt(stat, pidfd)
        for _, pidfd in found.values():
            if pidfd is not None:
                os.close(pidfd)

    def _adopt(self, stat: Stat, pidfd: int | None) -> None:
        before = self.alive.get(stat.pid)
        if before is not None:
            self._settle(before)  # its number was given anew, so it is gone
        tracked = Tracked(stat.pid, stat.ppid, stat.name, stat.start_ticks, started_at(stat.start_ticks))
        if pidfd is None:
            why = "it was gone too soon"
            try:
                pidfd = exits.open_pidfd(stat.pid)
            except ProcessLookupError:
                pass
            except OSError as error:
                why = str(error.strerror)
            if pidfd is None:
                tracked.unknown = exits.UNKNOWN_NO_PIDFD.format(why=why)
        tracked.pidfd = pidfd
        if pidfd is None:
            self._without_pidfd.add(tracked)
        else:
            self._by_pidfd[pidfd] = tracked
            self._epoll.register(pidfd, select.EPOLLIN)
        self.alive[stat.pid] = tracked
        self._newest = tracked
        tracked.measure()
        now = time.monotonic()
        self._busy_until = now + _BUSY_FOR
        for delay in _YOUNG:
            heapq.heappush(self._young, (now + delay, next(self._order), tracked))

    def _settle(self, tracked: Tracked) -> None:
        """Find out how a process ended that has probably ended."""
        stat = read_stat(tracked.pid)
        if stat is None or stat.start_ticks != tracked.start_ticks:
            ending = exits.of_pidfd(tracked.pidfd) if tracked.pidfd is not None else None
            self._end(tracked, ending, self._why_unknown(tracked))
            return
        if not stat.is_zombie:
            return
        tracked.note(stat)
        tracked.ended = tracked.ended or time.time()
        if stat.ppid == self._me:
            return  # ours to reap, which follows
        ending = exits.of_zombie(stat)
        if ending is not None:
            self._recorded[tracked.pid] = tracked.start_ticks
            self._end(tracked, ending)
        elif tracked not in self._unreadable:
            # The pidfd may tell once its parent has asked. Until then it would wake us all the time.
            self._unreadable.add(tracked)
            if tracked.pidfd is not None:
                self._epoll.unregister(tracked.pidfd)

    def _why_unknown(self, tracked: Tracked) -> str:
        if tracked in self._unreadable:
            return exits.UNKNOWN_FORBIDDEN
        if tracked.pidfd is None:
            return tracked.unknown
        return exits.UNKNOWN_REAPED.format(release=os.uname().release)

    def _end(self, tracked: Tracked, ending: Exit | None, unknown: str = "") -> None:
        tracked.exit, tracked.unknown = ending, "" if ending else unknown
        tracked.ended = tracked.ended or time.time()
        if self.alive.get(tracked.pid) is tracked:
            del self.alive[tracked.pid]
        self._without_pidfd.discard(tracked)
        if tracked.pidfd is not None:
            del self._by_pidfd[tracked.pidfd]
            if tracked not in self._unreadable:
                self._epoll.unregister(tracked.pidfd)
            os.close(tracked.pidfd)
            tracked.pidfd = None
        self._unreadable.discard(tracked)
        self._on_end(tracked)

    def _reap(self) -> bool:
        """Ask for the exit status of our own children that ended; returns whether any child is left."""
        while True:
            try:
                # WNOWAIT leaves the zombie where it is, so that its /proc entry can be read first.
                seen = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return False
            if seen is None:
                return True
            stat = read_stat(seen.si_pid)
            if stat is not None and self._is_new(stat):
                self.look()  # an orphan of whom we hadn't heard
                if self._is_new(stat):
                    self._adopt(stat, None)
            tracked = self.alive.get(seen.si_pid)
            _, status = os.waitpid(seen.si_pid, 0)
            self._recorded.pop(seen.si_pid, None)
            if tracked is not None:
                if stat is not None:
                    tracked.note(stat)
                self._end(tracked, exits.from_wait_status(status, "wait"))

    def _await_exec(self) -> None:
        """Something opens the dynamic linker, so one of the new ones is about to run its own program: catch its name.

        Programs like ``true`` are gone half a millisecond later, and a zombie has no arguments any more.
        """
        until = time.monotonic() + _EXEC_TAKES
        while self._newest is not None and self._newest.command_is_parents and time.monotonic() < until:
            self._newest.measure()
            self.look()

    def _patience(self) -> float:
        now = time.monotonic()
        seconds = _LOOK_WHEN_BUSY if now < self._busy_until else _LOOK_WHEN_CALM
        return max(0.0, min(seconds, self._young[0][0] - now)) if self._young else seconds

    def _measure(self) -> None:
        now = time.monotonic()
        while self._young and self._young[0][0] <= now:
            _, _, tracked = heapq.heappop(self._young)
            if tracked.ended is None:
                tracked.measure()
        if now < self._next_measure:
            return
        for tracked in self.alive.values():
            if tracked.ended is None:
                tracked.measure()
        # Numbers are tried one by one elsewhere; now and then all are listed, whatever the count says.
        self.look(everything=True)
        spent = time.monotonic() - now
        self._next_measure = now + max(_MEASURE_EVERY, _MEASURE_SHARE * spent)
