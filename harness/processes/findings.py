"""What a run's record tells beyond its exit code. Pure: a record in, sentences out."""

from __future__ import annotations

from collections.abc import Iterable

from harness.processes.record import Finding, ProcessRecord, RunRecord

# Signals that no healthy program dies of. SIGTERM, SIGINT and SIGPIPE end workers in the ordinary course.
_CRASHES = {"SIGKILL", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGSYS", "SIGTRAP"}
_NAMED = 5


def findings(run: RunRecord) -> list[Finding]:
    """What a person should know about a run that has ended, the gravest first."""
    return [*_of_memory(run), *_of_the_command(run), *_of_those_left(run), *_of_children(run), *_of_the_record(run)]


def _of_memory(run: RunRecord) -> Iterable[Finding]:
    if run.out_of_memory_kills:
        yield Finding(
            code="out-of-memory",
            text=f"The kernel killed {_count(run.out_of_memory_kills, 'process', 'processes')} of this container for "
            "lack of memory.",
        )


def _of_the_command(run: RunRecord) -> Iterable[Finding]:
    if run.exit_code == 127:
        yield Finding(code="not-found", text="127 is what the shell answers when it doesn't find a command.")
    elif run.exit_code == 126:
        yield Finding(code="not-executable", text="126 is what the shell answers when a file can't be executed.")


def _of_those_left(run: RunRecord) -> Iterable[Finding]:
    left = [process for process in run.processes if process.left_behind]
    if left:
        yield Finding(
            code="left-behind",
            text=f"The command ended, but {_count(len(left), 'process', 'processes')} of it went on: {_names(left)}. "
            "They were ended; what they were to write may be missing.",
        )
    if run.not_ended:
        yield Finding(
            code="not-ended",
            text=f"Still there though we killed them: {', '.join(map(str, run.not_ended))}. They wait in the kernel "
            "(state D) or belong to another user.",
        )


def _of_children(run: RunRecord) -> Iterable[Finding]:
    own_will = [process for process in run.processes if not process.main and not process.ended_by_us]
    crashed = [process for process in own_will if process.signal in _CRASHES]
    if crashed and not run.killed_by_user:
        yield Finding(
            code="children-crashed",
            text=f"{_count(len(crashed), 'child', 'children')} didn't end by itself: {_names(crashed)}.",
        )
    failed = [process for process in own_will if process.exit_code]
    if failed and run.exit_code == 0:
        yield Finding(
            code="children-failed",
            text=f"The command ended with 0, but {_count(len(failed), 'child', 'children')} did not: {_names(failed)}.",
        )


def _of_the_record(run: RunRecord) -> Iterable[Finding]:
    unknown = [process for process in run.processes if process.exit_note]
    if unknown:
        yield Finding(
            code="exit-unknown",
            text=f"How {_count(len(unknown), 'child', 'children')} ended isn't known: {unknown[0].exit_note}.",
        )
    for output in (run.stdout, run.stderr):
        if output.problem:
            yield Finding(code="output-incomplete", text=f"{output.problem}.")


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _names(processes: list[ProcessRecord]) -> str:
    shown = [f"{process.name} ({process.pid}{_ending(process)})" for process in processes[:_NAMED]]
    more = len(processes) - _NAMED
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _ending(process: ProcessRecord) -> str:
    if process.signal:
        return f", {process.signal}"
    return f", exit code {process.exit_code}" if process.exit_code else ""
