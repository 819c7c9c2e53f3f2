"""Starts a command, follows it and all it starts, passes signals on, and leaves no orphan behind."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from harness.errors import CommandNotStarted, DrydockError, UsageError
from harness.processes import running
from harness.processes.exits import signal_name
from harness.processes.findings import findings
from harness.processes.ledger import Ledger
from harness.processes.memory import out_of_memory_kills
from harness.processes.record import Finding, OutputRecord, ProcessRecord, RunRecord, timestamp
from harness.processes.redact import redact_command
from harness.processes.tee import Tee
from harness.processes.watch import Tracked, Watcher

STDOUT, STDERR = "stdout.log", "stderr.log"

# Passed on as they come. Those of the first group ask a command to end; the second of them is taken as "now".
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
_PASSED_ON = (*_ENDING, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)
# Seconds a killed process may take to vanish: it may hang in the kernel. The next SIGKILL is for those born meanwhile.
_KILL_PATIENCE = 10.0
_KILL_AGAIN = 0.05
_TERMINAL_PATIENCE = 5.0
_WRITE_EVERY = 1.0
_SHOWN_WHILE_RUNNING = 500
# Room for the result, should the command's output fill the disk.
_RESERVE, _RESERVED_BYTES = ".reserve", 256 * 1024


class Folder(Protocol):
    """Where a run is kept; ``runs.RunFolder`` is one."""

    @property
    def path(self) -> Path:
        """An existing folder."""

    def finish(self, result: Mapping[str, Any]) -> Path:
        """Write ``result.json``, whole or not at all."""


@dataclass(frozen=True)
class Plan:
    """What to run and how.

    Attributes:
        command: as typed in a shell.
        folder: where all is kept.
        redact: takes known secrets out of command lines.
        grace: seconds that processes may go on after the command itself has ended.
        term: seconds between SIGTERM and SIGKILL for those that go on longer.
        background: no input, and output goes to the files only, without us between, so that the command would
            survive our death.
        show_stdout: descriptor that shows standard output.
        show_stderr: descriptor that shows standard error.
        started: called once the command runs and ``running.json`` is there.
    """

    command: str
    folder: Folder
    redact: Callable[[str], str] = str
    cwd: Path = field(default_factory=Path.cwd)
    grace: float = 5.0
    term: float = 5.0
    background: bool = False
    show_stdout: int = 1
    show_stderr: int = 2
    started: Callable[[RunRecord], None] | None = None


def check_command(command: str) -> None:
    """Refuse what can't be a command, before anything is made for it.

    Raises:
        UsageError: it is empty, or no command line can carry it.
    """
    if not command.strip():
        raise UsageError("There is no command to run.", mend='make run CMD="python train.py"')
    if "\0" in command:
        raise UsageError("The command holds a NUL character, which no command line can carry.")


def supervise(plan: Plan) -> RunRecord:
    """Run a command to its end and that of all its descendants; returns what is kept in ``result.json``.

    Has to be called in the main thread of a process that does nothing else: signals and all children are taken over.

    Raises:
        UsageError: the command can't be one.
        CommandNotStarted: the shell couldn't be started, or the folder can't be written.
    """
    check_command(plan.command)
    try:
        _reserve(plan.folder.path / _RESERVE)
        supervision = _Supervision(plan)
    except OSError as error:
        raise CommandNotStarted(f"{plan.folder.path} can't be written: {error.strerror}.") from None
    return supervision.run()


class _Supervision:
    """One run. What is to be done next follows from ``_deadline`` and ``_stage``."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._path = plan.folder.path
        self._signals: deque[int] = deque()
        self._asked_to_end = 0
        self._tees: list[Tee] = []
        self._stage: Callable[[], bool] = self._while_running
        self._deadline = 0.0
        self._kill_next = 0.0
        self._next_write = 0.0
        self._memory_kills_before = out_of_memory_kills()
        self._lock = running.Lock(self._path)
        self._ledger = Ledger(self._path, self._redact)
        self._watcher = Watcher(self._on_end)
        self._main: Tracked | None = None
        self._begun = time.monotonic()
        shell = shutil.which("bash") or "/bin/sh"
        self.record = RunRecord(
            command=self._redact(plan.command),
            folder=self._path.name,
            cwd=str(plan.cwd),
            shell=shell,
            background=plan.background,
            environment=sorted(os.environ),
            supervisor=running.identity(),
            started=timestamp(time.time()),
            stdout=OutputRecord(file=STDOUT, bytes=0),
            stderr=OutputRecord(file=STDERR, bytes=0),
        )

    def run(self) -> RunRecord:
        wake_reader, wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        before = self._catch_signals(wake_writer)
        self._watcher.wake_on(wake_reader)
        try:
            self._start()
            self._write_running()
            if self.plan.started is not None:
                self.plan.started(self.record)
            while True:
                self._has_children = self._watcher.turn()
                _empty(wake_reader)
                while self._signals:
                    self._on_signal(self._signals.popleft())
                if self._stage():
                    break
                self._write_running()
            self._finish()
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(wake_reader)
            os.close(wake_writer)
            self._ledger.close()
            self._watcher.close()
            self._lock.release()
        return self.record

    # --- start ---------------------------------------------------------------------------------------------------

    def _catch_signals(self, wake: int) -> dict[int, Any]:
        """Queue signals for the loop. Handlers are reset in the command by exec, so it gets the usual ones."""

        def queue(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
            self._signals.append(number)

        before: dict[int, Any] = {}
        for number in (*_PASSED_ON, signal.SIGCHLD, signal.SIGTSTP):
            present = signal.getsignal(number)
            if number == signal.SIGHUP and (present == signal.SIG_IGN or self.plan.background):
                continue  # nohup: the command is not to hear of it either
            before[number] = signal.signal(number, queue)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        return before

    def _start(self) -> None:
        plan = self.plan
        environ = dict(os.environ)
        # Into a pipe or file Python writes by blocks: nothing to see for minutes, and lost on SIGKILL.
        environ.setdefault("PYTHONUNBUFFERED", "1")
        outputs = [self._output(STDOUT, plan.show_stdout), self._output(STDERR, plan.show_stderr)]
        try:
            child = subprocess.Popen(
                [self.record.shell, "-c", plan.command],
                stdin=subprocess.DEVNULL if plan.background else None,
                stdout=outputs[0],
                stderr=outputs[1],
                cwd=plan.cwd,
                env=environ,
                start_new_session=True,
            )
        except OSError as error:
            for tee in self._tees:
                tee.finish(_TERMINAL_PATIENCE)
            raise CommandNotStarted(
                f"{self.record.shell} could not be started in {plan.cwd}: {error.strerror}.",
                mend="put a long command into a script and run that" if error.errno == 7 else "",
            ) from None
        finally:
            for descriptor in outputs:
                os.close(descriptor)
        self.record.pid = child.pid
        child.returncode = 0  # the watcher reaps it; Popen must not try
        self._ledger.expect_main(child.pid)
        self._watcher.look(everything=True)
        _raise_descriptor_limit()

    def _output(self, name: str, shown: int) -> int:
        """What the command gets as an output: the file itself in the background, else a pipe that we copy."""
        path = self._path / name
        if self.plan.background:
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        reader, writer = os.pipe2(os.O_CLOEXEC)
        tee = Tee(reader, path, shown)
        tee.start()
        self._tees.append(tee)
        return writer

    # --- while it runs -------------------------------------------------------------------------------------------

    def _redact(self, text: str) -> str:
        return self.plan.redact(redact_command(text))

    def _on_end(self, tracked: Tracked) -> None:
        if self._main is None and tracked.pid == self.record.pid:
            self._main = tracked
            # By a clock that nobody sets; the record's moments are for people and logs.
            self.record.duration_seconds = round(time.monotonic() - self._begun, 3)
        self._ledger.ended(tracked)

    def _on_signal(self, number: int) -> None:
        if number in (signal.SIGCHLD, signal.SIGTSTP):
            return  # the turn has reaped; and stopping only us would leave the command running unwatched
        self.record.signals_passed_on.append(signal_name(number))
        if number in _ENDING:
            self._asked_to_end += 1
        if self._asked_to_end > 1 and number in _ENDING:
            self.record.killed_by_user = True
            self._begin_killing()
        elif self._command_runs:
            # The whole group, as a terminal would do it.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.record.pid, number)
        elif number in _ENDING and self._stage == self._while_grace:
            self._begin_ending()

    @property
    def _command_runs(self) -> bool:
        return self._main is None

    def _while_running(self) -> bool:
        if self._command_runs:
            return False
        if not self._has_children:
            return True
        self._stage, self._deadline = self._while_grace, time.monotonic() + self.plan.grace
        return False

    def _while_grace(self) -> bool:
        if not self._has_children:
            return True
        if time.monotonic() >= self._deadline:
            self._begin_ending()
        return False

    def _begin_ending(self) -> None:
        """Time is over for those that outlived the command: note who they are, and ask them to end."""
        self._watcher.look(everything=True)
        for tracked in self._still_there():
            self._ledger.mark(tracked.pid, left_behind=True)
        self._send_all(signal.SIGTERM)
        # A stopped process takes SIGTERM only when it goes on.
        self._send_all(signal.SIGCONT)
        self._stage, self._deadline = self._while_ending, time.monotonic() + self.plan.term

    def _while_ending(self) -> bool:
        if not self._has_children:
            return True
        if time.monotonic() >= self._deadline:
            self._begin_killing()
        return False

    def _begin_killing(self) -> None:
        self._stage, self._deadline, self._kill_next = self._while_killing, time.monotonic() + _KILL_PATIENCE, 0.0

    def _while_killing(self) -> bool:
        if not self._has_children:
            return True
        now = time.monotonic()
        if now >= self._kill_next:
            self._kill_next = now + _KILL_AGAIN
            self._watcher.look(everything=True)
            self._send_all(signal.SIGKILL)
        return now >= self._deadline

    def _still_there(self) -> list[Tracked]:
        return [tracked for tracked in self._watcher.alive.values() if tracked.ended is None]

    def _send_all(self, number: signal.Signals) -> None:
        for tracked in self._still_there():
            if number != signal.SIGCONT:
                self._ledger.mark(tracked.pid, left_behind=False, signal=number.name)
            tracked.send(number)

    # --- what is kept --------------------------------------------------------------------------------------------

    def _write_running(self) -> None:
        """Let others see how far we are, no more than once a second."""
        now = time.monotonic()
        if now < self._next_write:
            return
        self._next_write = now + _WRITE_EVERY
        self._ledger.flush()
        alive = [self._ledger.record(tracked) for tracked in self._watcher.alive.values()]
        # Those that ended are in the ledger's file; the list here must stay short, it is written again and again.
        self._take_stock(alive[:_SHOWN_WHILE_RUNNING])
        with contextlib.suppress(OSError):  # a full disk: the command is to go on, and the result tells of it
            running.write(self._path / running.RUNNING, self.record)

    def _take_stock(self, processes: list[ProcessRecord]) -> None:
        self.record.processes = processes
        self.record.process_count = self._ledger.count + len(self._watcher.alive)
        self.record.processes_omitted = self.record.process_count - len(processes)
        self.record.unseen = self._watcher.unseen

    def _finish(self) -> None:
        self._watcher.settle_all()
        record, main = self.record, self._ledger.main
        ended = time.time()
        for tee in self._tees:
            tee.finish(_TERMINAL_PATIENCE)
        self._take_stock([*self._ledger.kept, *map(self._ledger.record, self._watcher.alive.values())])
        record.state = "ended"
        record.not_ended = [tracked.pid for tracked in self._still_there()]
        record.ended = main.ended if main is not None and main.ended is not None else timestamp(ended)
        if main is not None:
            record.exit_code, record.signal = main.exit_code, main.signal
        if self._main is not None and self._main.exit is not None:
            record.status = self._main.exit.status
        for output in (record.stdout, record.stderr):
            self._measure_output(output)
        if self._memory_kills_before is not None:
            record.out_of_memory_kills = (out_of_memory_kills() or 0) - self._memory_kills_before
        record.findings = findings(record)
        self._ledger.flush()
        (self._path / _RESERVE).unlink(missing_ok=True)
        try:
            self.plan.folder.finish(record.model_dump(mode="json"))
        except DrydockError as error:
            # How the command ended is worth more than the file: the caller still learns it.
            record.findings.append(Finding(code="not-kept", text=f"There is no result.json: {error.what}."))
        (self._path / running.RUNNING).unlink(missing_ok=True)

    def _measure_output(self, output: OutputRecord) -> None:
        path = self._path / output.file
        output.bytes = path.stat().st_size if path.exists() else 0
        for tee in self._tees:
            if tee.path == path:
                output.problem = tee.problem


def _reserve(path: Path) -> None:
    with path.open("wb") as file:
        file.write(bytes(_RESERVED_BYTES))  # not fallocate, which some network file systems lack


def _empty(descriptor: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(descriptor, 4096):
            pass


def _raise_descriptor_limit() -> None:
    """A handle is kept for each descendant. Only after the command started, whose own limit is not our business."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
