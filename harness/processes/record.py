"""What is kept about a run, as it lies in ``running.json`` and ``result.json``."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.processes.exits import Source, signal_name
from harness.processes.watch import Tracked

# Command lines can be megabytes; what tells processes apart stands at the beginning.
_LONGEST_COMMAND = 4000

FORKED_ONLY = "its parent's: it executed no program of its own"
MAYBE_PARENTS = "its parent's; whether it executed a program of its own isn't known, it ended too soon"
TOO_SHORT = "not known: it ended before its arguments could be read"


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore")


class ProcessRecord(_Record):
    """One descendant. Empty and null mean "not known"; the notes say why."""

    pid: int
    parent: int
    name: str = Field(description="the kernel's name for it, at most 15 bytes")
    command: str | None
    command_note: str = ""
    main: bool = Field(default=False, description="it is the shell that ran the command")
    start_ticks: int = Field(description="clock ticks from boot to its start; tells it from others with its number")
    started: datetime
    ended: datetime | None = None
    exit_code: int | None = None
    signal: str | None = Field(default=None, description="the signal that ended it")
    core_dumped: bool = False
    exit_source: Source | None = Field(
        default=None, description="wait: we reaped it; zombie: /proc; pidfd: the kernel's memory"
    )
    exit_note: str = Field(default="", description="why neither exit_code nor signal is known")
    peak_memory_bytes: int | None = Field(default=None, description="VmHWM of its last program, when last measured")
    cpu_seconds: float | None = Field(default=None, description="user and system, without its children's")
    measured: datetime | None = None
    left_behind: bool = Field(
        default=False, description="it still ran when the grace time after the command's end was over"
    )
    ended_by_us: str = Field(default="", description="the last signal we sent it to end it")

    @property
    def failed(self) -> bool:
        """It is known to have ended otherwise than well."""
        return self.signal is not None or self.exit_code not in (None, 0)


class OutputRecord(_Record):
    """One of the command's two outputs."""

    file: str
    bytes: int
    problem: str = Field(default="", description="why the file or what was shown is not all that the command wrote")


class Supervisor(_Record):
    """Who follows the command; only in the same PID namespace does the number mean anything."""

    pid: int
    start_ticks: int
    boot: str = Field(description="the machine's boot id")
    pid_namespace: int


class Finding(_Record):
    """Something about the run that a person should know though the exit code doesn't tell."""

    code: str
    text: str


class RunRecord(_Record):
    """A run of a command."""

    schema_version: int = 1
    verb: Literal["run"] = "run"
    state: Literal["running", "ended"] = "running"
    command: str
    folder: str = ""
    cwd: str
    shell: str
    background: bool
    environment: list[str] = Field(description="names only; values may be secrets")
    supervisor: Supervisor
    pid: int = Field(default=0, description="of the command's shell, which leads its process group")
    started: datetime
    ended: datetime | None = None
    duration_seconds: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    status: int | None = Field(
        default=None, description="what a shell would show: the exit code, or 128 + the signal's number"
    )
    signals_passed_on: list[str] = []
    killed_by_user: bool = Field(default=False, description="a second Ctrl-C ended it")
    stdout: OutputRecord
    stderr: OutputRecord
    processes: list[ProcessRecord] = []
    process_count: int = 0
    processes_omitted: int = Field(default=0, description="more of them; all that ended are in processes.jsonl")
    not_ended: list[int] = Field(default=[], description="descendants that still ran when we left")
    unseen: int | None = Field(
        default=0,
        description="tasks (also threads, also of others) that came and went unseen in this PID namespace at most",
    )
    out_of_memory_kills: int | None = Field(default=None, description="in this container meanwhile; null: not known")
    findings: list[Finding] = []


def timestamp(seconds: float) -> datetime:
    """Seconds since the epoch as a moment in UTC, to the millisecond."""
    return datetime.fromtimestamp(round(seconds, 3), tz=timezone.utc)


def process_record(tracked: Tracked, redact: Callable[[str], str]) -> ProcessRecord:
    """What is kept about a descendant; ``redact`` takes the secrets out of its command line."""
    ending = tracked.exit
    command, note = _command(tracked)
    if command is not None:
        command = redact(command)
        if len(command) > _LONGEST_COMMAND:
            command = command[:_LONGEST_COMMAND] + f"… ({len(command)} characters)"
    return ProcessRecord(
        pid=tracked.pid,
        parent=tracked.ppid,
        name=tracked.name,
        command=command,
        command_note=note,
        start_ticks=tracked.start_ticks,
        started=timestamp(tracked.started),
        ended=None if tracked.ended is None else timestamp(tracked.ended),
        exit_code=None if ending is None else ending.code,
        signal=None if ending is None or ending.signal is None else signal_name(ending.signal),
        core_dumped=ending is not None and ending.core_dumped,
        exit_source=None if ending is None else ending.source,
        exit_note=tracked.unknown,
        peak_memory_bytes=tracked.peak_memory,
        cpu_seconds=tracked.cpu_seconds,
        measured=None if tracked.measured is None else timestamp(tracked.measured),
    )


def _command(tracked: Tracked) -> tuple[str | None, str]:
    """The command line as a shell would take it, and what must be said about it."""
    if tracked.command is None:
        return None, TOO_SHORT
    text = shlex.join(tracked.command) if len(tracked.command) > 1 else tracked.command[0]
    if not tracked.command_is_parents:
        return text, ""
    return text, FORKED_ONLY if tracked.seen_to_end else MAYBE_PARENTS
