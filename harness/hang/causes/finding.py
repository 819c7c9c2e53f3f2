"""What a cause is, and what a rule gives: a cause, how sure it is, whom it names, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from harness.hang.groups import Group, ids
from harness.hang.model import Hint
from harness.hang.scene import Scene
from harness.hang.waits import RUNNING


@dataclass(frozen=True)
class Cause:
    """A cause in words. {who} is the laggard, {pid} its process, {rank} its rank.

    A line with a placeholder that isn't known is left out.

    Attributes:
        code: what programs compare, and people look up in docs/troubleshooting.md.
        elsewhere: where the mistake may be, since it hangs elsewhere.
        next: what to run or do next; commands with ``   # why`` behind them.
        apart: what tells it from another cause of equal signs, by that one's code.
    """

    code: str
    title: str
    means: str = ""
    elsewhere: str = ""
    next: tuple[str, ...] = ()
    apart: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Finding:
    """One rule's opinion.

    Attributes:
        score: 0 to 1. From 0.88 the signature is unmistakable; below 0.5 it is worth a mention only.
        state: ``unknown`` where it is worth saying, and a healthy program may look the same.
    """

    cause: str
    score: float
    laggards: list[str] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    state: Literal["hung", "slow", "unknown"] = "hung"


Rule = Callable[[Scene], Iterable[Finding]]


def say(groups: Group | Iterable[Group], most: int = 4) -> str:
    """One sentence on where groups are: ``ranks 0-2 wait in all_reduce at step (train.py:40)``."""
    listed = [groups] if isinstance(groups, Group) else list(groups)
    parts = [_say_one(group) for group in listed[:most]]
    if len(listed) > most:
        parts.append(f"and {len(listed) - most} more groups")
    return "; ".join(parts)


def _say_one(group: Group) -> str:
    who = group.who
    one = len(set(group.ids)) == 1
    if group.halted:
        return f"{who} {'is' if one else 'are'} stopped ({group.wait})"
    if group.idle:
        return f"{who} {'has' if one else 'have'} nothing to do ({group.wait.operation})"
    if group.kind == RUNNING:
        return f"{who} {'is' if one else 'are'} in {_top(group)}"
    return f"{who} {'waits' if one else 'wait'} in {group.wait}"


def _top(group: Group) -> str:
    if not group.wait.clean:
        return "no known frame"
    top, place = group.wait.clean[0], group.wait.place
    return f"{top}" if place is None or place == top else f"{top} called by {place}"


def named(groups: Iterable[Group]) -> list[str]:
    """Ids of groups, as laggards."""
    return ids(groups)


def logged(hints: Iterable[Hint], most: int = 2) -> list[str]:
    """Lines of logs as evidence."""
    return [f"Log: {hint.text}" for hint, _ in zip(hints, range(most), strict=False)]
