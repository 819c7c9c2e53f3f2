"""Point-to-point calls in the ranks' Flight Recorders: who sends, who receives, and whom each of them waits for.

NCCL's recorder has them (``nccl:send 0->1``, ``nccl:recv 1<-0``, by ranks within the group); gloo's has none.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from itertools import groupby

from harness.hang.grouping import ranges
from harness.hang.model import Recorded, Recording
from harness.hang.recorded_rows import Finding, Row

_CALL = re.compile(r"(?:(send) (\d+)->(\d+)|(recv) (\d+)<-(\d+))$")


@dataclass(frozen=True)
class _Open:
    """A call that isn't done: of which rank, towards which other, and between whom (sender, receiver)."""

    rank: int
    other: int
    pair: tuple[str, int, int]
    recorded: Recorded

    @property
    def sends(self) -> bool:
        return self.rank == self.pair[1]

    @property
    def elements(self) -> int | None:
        """How many it passes; None where the recorder doesn't say."""
        try:
            sizes = json.loads(self.recorded.sizes.partition(" → ")[0] or "null")
            return sum(math.prod(shape) for shape in sizes) if sizes else None
        except (ValueError, TypeError):
            return None

    @property
    def row(self) -> Row:
        one = self.recorded
        return Row(one.group, one.sequence, one.operation, one.sizes, one.dtypes, one.completed, [self.rank])

    def __str__(self) -> str:
        what = f"sends to rank {self.other}" if self.sends else f"receives from rank {self.other}"
        return f"rank {self.rank} {what} {self.recorded.sizes.partition(' → ')[0]}"


def compare_pairs(recordings: list[Recording]) -> list[Finding]:
    """What the calls that are under way say: ``size`` where the two sides disagree, ``order`` where ranks wait for each
    other in a circle, ``late`` where the other side never came, ``same`` where both are there."""
    found = sorted((call for recording in recordings for call in _open_calls(recording)), key=lambda call: call.pair)
    dumped = {recording.rank for recording in recordings}
    alone: list[_Open] = []
    met: list[tuple[_Open, _Open]] = []
    for _, calls in groupby(found, key=lambda call: call.pair):
        both = list(calls)
        senders, receivers = [c for c in both if c.sends], [c for c in both if not c.sends]
        if senders and receivers:
            met.append((senders[0], receivers[0]))
        else:
            alone += [call for call in both[:1] if call.other in dumped]
    for sender, receiver in met:
        if None not in (sender.elements, receiver.elements) and sender.elements != receiver.elements:
            return [Finding("size", f"{sender}; {receiver}.", [], [sender.row, receiver.row])]
    if alone:
        return [_who_waits_for_whom(alone)]
    if met:
        sender, receiver = met[0]
        return [Finding("same", f"Both sides are there: {sender}; {receiver}.", [], [sender.row, receiver.row])]
    return []


def _who_waits_for_whom(alone: list[_Open]) -> Finding:
    """Follow the waits: to a circle, or to those whom others wait for and who wait for nobody."""
    waits = {call.rank: call for call in reversed(alone)}
    text = "; ".join(str(call) for call in alone[:4]) + ", and the other side has not come."
    rows = [call.row for call in alone[:16]]
    for start in waits:
        seen: list[int] = []
        at = start
        while at in waits and at not in seen:
            seen.append(at)
            at = waits[at].other
        if at in seen:
            circle = seen[seen.index(at) :]
            return Finding("order", f"In a circle, ranks {ranges(circle)}: {text}", [], rows)
    late = sorted({call.other for call in alone} - waits.keys())
    return Finding("late", text[0].upper() + text[1:], late, rows)


def _open_calls(recording: Recording) -> list[_Open]:
    found = []
    for one in recording.operations:
        match = _CALL.match(one.operation) if one.point_to_point and not one.completed else None
        if match is None:
            continue
        own, other = (int(number) for number in match.group(*((2, 3) if match[1] else (5, 6))))
        members = recording.members.get(one.group, [])
        if members and max(own, other) < len(members):
            own, other = members[own], members[other]
        pair = (own, other) if match[1] else (other, own)
        found.append(_Open(recording.rank, other, (one.group, *pair), one))
    return found
