"""Reads stacks that were printed: a terminal's scrollback, the guide's loop, a log, a paste in an issue.

One small machine a source of lines: log collectors mix the lines of several processes and put a prefix before each.
Memory stays bounded whatever the size of the text: of each process the first and the latest sample are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.hang.model import Stack, Thread, Threads
from harness.hang.readers import dialects
from harness.hang.readers.dialects import ThreadHead
from harness.hang.readers.digits import whole
from harness.hang.readers.interning import Interner
from harness.hang.readers.logs import Hints

# torchrun, Ray and accelerate put these before each line; what follows is the process's own text.
_PREFIX = re.compile(r"^(?:\[(?:rank|default)(\d{1,7})\]:? ?|\(([^()]*?\bpid=(\d+)[^()]*)\) ?)")
_BOOT = ("_bootstrap", "_bootstrap_inner", "__bootstrap", "__bootstrap_inner")
_MOST_PROCESSES = 300_000
_MOST_THREADS = 20_000
_LONGEST_STACK = 2_000


@dataclass
class Printed:
    """One process as some text shows it.

    Attributes:
        ranks: from a heading; several when one stack is said to stand for them.
        samples: the first and the latest.
    """

    pid: int = 0
    ranks: list[int] = field(default_factory=list)
    command: str = ""
    parent: int = 0
    stands_for_all: bool = False
    samples: list[Threads] = field(default_factory=list)

    def add(self, threads: Threads) -> None:
        """Keep the first sample and the latest."""
        self.samples = [*self.samples[:1], threads]


class TextReader:
    """Feed it lines; ``processes`` holds what was found so far after ``close``."""

    def __init__(self, interner: Interner, hints: Hints) -> None:
        self.processes: list[Printed] = []
        self.overflowed = False
        self.interner = interner
        self.hints = hints
        self._machines: dict[str, _Machine] = {}
        self._plain: _Machine | None = None
        self._known: dict[tuple[int, tuple[int, ...]], Printed] = {}

    def feed_all(self, lines: Iterable[str]) -> None:
        """Feed every line and close."""
        for line in lines:
            plain = self._plain
            # Most lines of a large text are frames: they are kept as they are until their thread ends.
            if (
                line[:4] == "    "
                and plain is not None
                and plain.head is not None
                and len(plain.lines) < _LONGEST_STACK
            ):
                plain.lines.append(line)
            else:
                self.feed(line)
        self.close()

    def feed(self, line: str) -> None:
        """Take one line, with or without its end."""
        line = line.rstrip("\r\n")
        if "\x1b" in line:
            line = dialects.ESCAPES.sub("", line)
        prefix = ""
        rank: int | None = None
        pid = 0
        if line[:1] in "[(" and (match := _PREFIX.match(line)):
            prefix = match[0].rstrip()
            rank = whole(match[1]) if match[1] else None
            pid = whole(match[3])
            line = line[match.end() :]
        machine = self._machines.get(prefix)
        if machine is None:
            if len(self._machines) > _MOST_PROCESSES:
                self.overflowed = True
                self._machines.clear()
            machine = self._machines[prefix] = _Machine(self, rank, pid)
        if not prefix:
            self._plain = machine
        machine.feed(line)

    def close(self) -> None:
        """There are no more lines."""
        for machine in self._machines.values():
            machine.end_process()

    def keep(self, process: Printed) -> None:
        """Called by a machine for each process that it has read; one that was seen before has a new latest sample."""
        key = (process.pid, tuple(process.ranks[:4]))
        known = self._known.setdefault(key, process) if process.pid else process
        if known is not process:
            known.add(process.samples[-1])
        elif len(self.processes) >= _MOST_PROCESSES:
            self.overflowed = True
        else:
            self.processes.append(process)


class _Machine:
    """Reads the lines of one source in their order."""

    def __init__(self, reader: TextReader, rank: int | None, pid: int) -> None:
        self._reader = reader
        self._rank = rank
        self._pid = pid
        self._process: Printed | None = None
        self._opened_by_heading = False
        self._threads: list[tuple[str, Thread]] = []
        self._tids: set[str] = set()
        self.head: ThreadHead | None = None
        self.lines: list[str] = []

    def feed(self, line: str) -> None:
        """Take one line without its end and its prefix."""
        head = self.head
        if head is not None and line[:1] in (" ", "\t", "#") and not self._is_heading(line):
            if len(self.lines) < _LONGEST_STACK:
                self.lines.append(line)
            return
        if not line.strip():
            if self.lines:
                self._end_thread()
            return
        if (new := dialects.thread_head(line)) is not None:
            self._begin_thread(new)
        elif self._open_process(line):
            return
        elif head is not None and dialects.BARE_FRAME.match(line):
            self.lines.append(line)
        elif dialects.BARE_FRAME.match(line) or (
            self._process is not None and line[:1] == "#" and dialects.one_frame(line)
        ):
            self._begin_thread(ThreadHead("", "MainThread"))
            self.lines.append(line)
        else:
            self._end_thread()
            if not line.startswith(("Python v", "```")):
                self._opened_by_heading = False
                self._reader.hints.feed(line, self._rank)

    @staticmethod
    def _is_heading(line: str) -> bool:
        # Frames of gdb begin with "#0"; a heading in a paste with "# Rank 0" or "## all ranks".
        return line[0] == "#" and not line[1:2].isdigit()

    # --- processes ----------------------------------------------------------------------------------------------

    def _open_process(self, line: str) -> bool:
        """Whether this line opens a process or says more of the one that is open."""
        if match := dialects.PYSPY_PROCESS.match(line):
            self._begin_process(whole(match[1]), command=match[2].strip(), own_line=True)
        elif match := dialects.PYSPY_PARENT.match(line):
            if self._process is not None:
                self._process.parent = whole(match[1])
        elif (match := dialects.RAY_STACK_HEADING.match(line)) or (match := dialects.PID_HEADING.match(line)):
            self._begin_process(whole(match[1]))
        elif len(line) < 160 and (match := dialects.RANK_HEADING.match(line)):
            self._begin_process(0, ranks=dialects.ranks_of(match[1]))
        elif dialects.ALL_RANKS_HEADING.match(line):
            self._begin_process(0, stands_for_all=True)
        elif dialects.FAULTHANDLER_START.match(line):
            self._end_sample()
        elif dialects.OTHER_HEADING.match(line):
            self._begin_process(0)
        else:
            return False
        return True

    def _begin_process(
        self,
        pid: int,
        command: str = "",
        ranks: list[int] | None = None,
        stands_for_all: bool = False,
        own_line: bool = False,
    ) -> None:
        process = self._process
        # A heading with nothing below it yet, and the dumper's own first line: these are one process.
        if process is not None and self._opened_by_heading and not self._threads and not process.samples and own_line:
            process.pid = pid
            process.command = command
            return
        self.end_process()
        self._process = Printed(pid, ranks or [], command, stands_for_all=stands_for_all)
        self._opened_by_heading = not own_line

    def end_process(self) -> None:
        """Hand over what was read of the open process."""
        self._end_sample()
        process, self._process = self._process, None
        if process is not None and process.samples:
            if not process.ranks and self._rank is not None:
                process.ranks = [self._rank]
            process.pid = process.pid or self._pid
            self._reader.keep(process)

    # --- threads ------------------------------------------------------------------------------------------------

    def _begin_thread(self, head: ThreadHead) -> None:
        self._end_thread()
        if self._process is None:
            self._process = Printed()
        # Seeing a thread again means that this is the next dump of the same process.
        if head.tid and head.tid in self._tids:
            self._end_sample()
        self._tids.add(head.tid)
        self.head = head

    def _end_thread(self) -> None:
        head, self.head = self.head, None
        lines, self.lines = self.lines, []
        if head is None or not lines or len(self._threads) >= _MOST_THREADS:
            return
        interner = self._reader.interner
        raw = dialects.ESCAPES.sub("", "\n".join(lines))
        stack = interner.by_raw((head.order, raw), lambda: dialects.frames(raw.split("\n"), head.order))
        if stack.frames:
            self._threads.append((head.tid, interner.thread(head.name, stack, head.active, head.holds_gil)))

    def _end_sample(self) -> None:
        self._end_thread()
        threads, self._threads, self._tids = self._threads, [], set()
        if threads and self._process is not None:
            if not self._process.pid:
                self._process.pid = _pid_by_threads(threads)
            self._process.add(self._reader.interner.threads(self._with_main(threads)))

    def _with_main(self, threads: list[tuple[str, Thread]]) -> list[Thread]:
        """Give the first thread its name where the dumper doesn't print names."""
        plain = [thread for _, thread in threads]
        if any(thread.is_main for thread in plain):
            return plain
        pid = str(self._process.pid) if self._process else ""
        unnamed = [index for index, thread in enumerate(plain) if not thread.name]
        mains = (
            [index for index in unnamed if threads[index][0] == pid]
            or [index for index in unnamed if _starts_program(plain[index].stack)]
            or [index for index in unnamed if not _starts_thread(plain[index].stack)][-1:]
            or (unnamed if len(plain) == 1 else [])
        )
        if mains:
            main = plain[mains[0]]
            plain[mains[0]] = self._reader.interner.thread("MainThread", main.stack, main.active, main.holds_gil)
        return plain


def _pid_by_threads(threads: list[tuple[str, Thread]]) -> int:
    """The kernel numbers a process like its first thread; dumpers that print such numbers are py-spy and pystack."""
    main = [tid for tid, thread in threads if thread.is_main and tid.isdigit()]
    numbers = [whole(tid) for tid in main or [tid for tid, _ in threads if tid.isdigit()]]
    return min(numbers, default=0)


def _starts_program(stack: Stack) -> bool:
    return any(frame.name == "<module>" for frame in stack.frames[-3:]) and not _starts_thread(stack)


def _starts_thread(stack: Stack) -> bool:
    return any(frame.function in _BOOT and frame.file.endswith("threading.py") for frame in stack.frames)
