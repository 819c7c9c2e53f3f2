"""Decides from two dumps of one program whether somebody is to be woken up. Pure."""

from __future__ import annotations

from harness.hang.model import Dump, Process
from harness.hang.verdict import Verdict

_LOOPS = frozenset({"python-loop", "user-code"})


def is_hung(first: tuple[Dump, Verdict], second: tuple[Dump, Verdict], counts_steps: bool = False) -> bool:
    """Whether both dumps show a hang, and nobody who is named has got on between them.

    A night's alarm has to be right: a program that computes at other lines each time is left alone, unless its own step
    counter says that it stands. One that has been quiet for long and computes at one and the same lines all the while
    isn't: a single dump can't tell it from long work, hours can.

    Args:
        counts_steps: a step counter is watched, and it stands still.
    """
    if counts_steps and {first[1].state, second[1].state} <= {"hung", "slow", "unknown"}:
        return True
    if not any(all(map(agrees, (first[1], second[1]))) for agrees in (_hangs, _loops)):
        return False
    named = {*first[1].laggards, *second[1].laggards}
    return not any(_moves(first[0], second[0], who) for who in named)


def _hangs(verdict: Verdict) -> bool:
    return verdict.hangs


def _loops(verdict: Verdict) -> bool:
    """Whether somebody is named who may go round for ever."""
    return verdict.state == "slow" and bool(_LOOPS & {*verdict.candidates}) and bool(verdict.laggards)


def _moves(first: Dump, second: Dump, who: str) -> bool:
    stacks = {_stacks(process) for dump in (first, second) for process in dump.processes if process.id == who}
    places = {place for shown in stacks for place in shown}
    return len(places) > len({process.role for process in second.processes if process.id == who})


def _stacks(process: Process) -> tuple[object, ...]:
    """Where its main thread was in each sample: all calls with their lines."""
    found = []
    for sample in process.samples:
        if sample.threads:
            main = next((thread for thread in sample.threads if thread.is_main), sample.threads[0])
            found.append((process.role, main.stack.frames))
    return tuple(found)
