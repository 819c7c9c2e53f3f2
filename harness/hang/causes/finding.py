"""What a rule gives: a cause, how sure it is, whom it names, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from harness.hang.grouping import names
from harness.hang.scene import Group, Scene, ids
from harness.hang.waits import RUNNING


@dataclass
class Finding:
    """One rule's opinion.

    Attributes:
        score: 0 to 1. From 0.88 the signature is unmistakable; below 0.5 it is worth a mention only.
        elsewhere: where the mistake may sit, when that isn't where it hangs.
    """

    cause: str
    score: float
    laggards: list[str] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    state: Literal["hung", "slow"] = "hung"
    elsewhere: str = ""


Rule = Callable[[Scene], Iterable[Finding]]


def say(groups: Group | Iterable[Group], most: int = 4) -> str:
    """One sentence on where groups are: ``ranks 0-2 wait in all_reduce at step (train.py:40)``."""
    listed = [groups] if isinstance(groups, Group) else list(groups)
    parts = []
    for group in listed[:most]:
        who = names(group.ids)
        one = len(set(group.ids)) == 1
        if group.halted:
            verb = "is stopped" if one else "are stopped"
            parts.append(f"{who} {verb} ({group.wait})")
        elif group.idle:
            parts.append(f"{who} {'has' if one else 'have'} nothing to do ({group.wait.operation})")
        elif group.kind == RUNNING:
            parts.append(f"{who} {'is' if one else 'are'} in {_top(group)}")
        else:
            parts.append(f"{who} {'waits' if one else 'wait'} in {group.wait}")
    if len(listed) > most:
        parts.append(f"and {len(listed) - most} more groups")
    return "; ".join(parts)


def _top(group: Group) -> str:
    top = group.wait.clean[0] if group.wait.clean else None
    place = group.wait.place
    if top is None:
        return "no known frame"
    return f"{top}" if place is None or place == top else f"{top} called by {place}"


def named(groups: Iterable[Group]) -> list[str]:
    """Ids of groups, as laggards."""
    return ids(groups)
