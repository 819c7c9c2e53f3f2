"""Causes that are told by more than stacks: the Flight Recorder's dumps and the watchdog's log lines."""

from __future__ import annotations

from collections.abc import Iterable

from harness.hang.causes.finding import Finding, logged
from harness.hang.model import Hint
from harness.hang.scene import Scene

# Their sizes differ from rank to rank by design.
_UNEQUAL = {"ALLTOALL", "ALLTOALL_BASE", "GATHER", "SCATTER"}


def recorder(scene: Scene) -> Iterable[Finding]:
    """The Flight Recorder knows operations, sizes and who never came."""
    found = scene.recorded
    if found is None:
        return
    who = [f"rank{rank}" for rank in found.ranks]
    evidence = [f"Flight Recorder: {found.text}"]
    if found.kind == "type":
        yield Finding("collective-mismatch", 0.93, who, evidence)
    elif found.kind in ("size", "dtype"):
        yield Finding("size-mismatch", 0.95, who, evidence)
    elif found.kind == "cycle":
        yield Finding("cross-group", 0.92, [], evidence)
    elif found.kind == "order":
        yield Finding("p2p-order", 0.9, who, evidence)
    elif found.kind in ("behind", "late"):
        # The recorder knows who is late, the stacks know why.
        yield Finding("straggler", 0.6, who, evidence)
        if not scene.groups:
            yield Finding("dead-peer", 0.5, who, evidence)
    elif found.kind == "same":
        below = "Same operation, same sizes on every rank: what is left is below the program."
        yield Finding("network", 0.86, [], [*evidence, below])


def watchdog(scene: Scene) -> Iterable[Finding]:
    """The watchdog's lines carry number, operation and size of what timed out, rank by rank."""
    by_rank = {hint.rank: hint for hint in scene.hints("watchdog") if hint.rank is not None}
    lines = list(by_rank.values())
    sequences = {hint.numbers.get("sequence") for hint in lines}
    if len(lines) > 1 and len(sequences) == 1:
        operations = {_operation(hint) for hint in lines}
        sizes = {hint.numbers.get("inputs") for hint in lines}
        if len(operations) > 1:
            yield Finding("collective-mismatch", 0.9, [], logged(lines))
        elif len(sizes) > 1 and not operations & _UNEQUAL:
            yield Finding("size-mismatch", 0.9, [], logged(lines))
    fingerprints = logged(scene.hints("fingerprint"), most=1)
    if fingerprints:
        yield Finding("collective-mismatch", 0.95, [], fingerprints)


def _operation(hint: Hint) -> str:
    return hint.text.partition("OpType=")[2].partition(",")[0]


RULES = (recorder, watchdog)
