"""Compares the ranks' Flight Recorders: who called what, of which size, and who never came."""

from __future__ import annotations

from harness.hang.grouping import ranges
from harness.hang.model import Recorded, Recording
from harness.hang.recorded_pairs import compare_pairs
from harness.hang.recorded_rows import Finding as Finding
from harness.hang.recorded_rows import Row

# Every rank must pass as many elements to these; the others may differ by design.
_SAME_SIZE = frozenset(
    {"all_reduce", "allreduce", "broadcast", "reduce", "all_gather", "allgather", "all_gather_into_tensor"}
    | {"_all_gather_base", "reduce_scatter", "reduce_scatter_tensor", "_reduce_scatter_base"}
)


def compare(recordings: list[Recording]) -> Finding:
    """Look at each group's first operation that isn't done everywhere, and at what is sent and received."""
    groups: dict[str, list[Recording]] = {}
    for recording in recordings:
        for name in {operation.group for operation in recording.operations} | set(recording.enqueued):
            groups.setdefault(name, []).append(recording)
    findings = [
        finding
        for name, members in sorted(groups.items())
        if (finding := _in_group(name, members, recordings)) is not None
    ]
    behind = [finding for finding in findings if finding.kind == "behind"]
    findings += compare_pairs(recordings)
    if not findings:
        return Finding("done", "The recorders show no operation that is under way.")
    if len(behind) > 1 and not set(behind[0].ranks) & set(behind[1].ranks):
        rows = [row for finding in behind for row in finding.rows]
        return Finding("cycle", " And: ".join(finding.text for finding in behind[:2]), [], rows)
    order = ("type", "size", "dtype", "order", "behind", "late", "same")
    return min(findings, key=lambda finding: order.index(finding.kind))


def _in_group(name: str, members: list[Recording], everyone: list[Recording]) -> Finding | None:
    enqueued = {recording.rank: _last(recording, name) for recording in members}
    expected = next(
        (set(recording.members[name]) for recording in members if recording.members.get(name)), set(enqueued)
    )
    dumped = {recording.rank for recording in everyone}
    # A rank that has a recorder but nothing in this group has never come to it.
    for rank in expected & dumped:
        enqueued.setdefault(rank, 0)
    if len(enqueued) < 2:
        return None
    completed = min((recording.completed.get(name, -1) for recording in members), default=-1)
    highest, lowest = max(enqueued.values()), min(enqueued.values())
    first = max(min(lowest, completed + 1), 1) if completed >= 0 else lowest
    for sequence in range(first, lowest + 1):
        if (finding := _mismatch(name, sequence, members)) is not None:
            return finding
    if lowest < highest:
        late = sorted(rank for rank, last in enqueued.items() if last == lowest)
        rows = _rows(name, lowest + 1, members)
        what = rows[0].operation if rows else "operation"
        return Finding("behind", f"Group {name}: {what} number {lowest + 1} lacks rank {ranges(late)}.", late, rows)
    if completed >= highest:
        return None
    rows = _rows(name, highest, members)
    if not rows or all(row.completed for row in rows):
        return None
    return Finding(
        "same", f"Group {name}: every rank is in {rows[0].operation} number {highest}, sizes {rows[0].sizes}.", [], rows
    )


def _mismatch(name: str, sequence: int, members: list[Recording]) -> Finding | None:
    rows = _rows(name, sequence, members)
    if len(rows) < 2:
        return None
    for kind, word in (("type", "operation"), ("size", "sizes"), ("dtype", "dtypes")):
        values = {getattr(row, word) for row in rows}
        if len(values) > 1 and (kind == "type" or rows[0].operation in _SAME_SIZE):
            text = "; ".join(f"rank {ranges(row.ranks)}: {row.operation} {row.sizes} {row.dtypes}" for row in rows[:4])
            return Finding(kind, f"Group {name}, number {sequence}: {text}.", _odd(rows, word), rows)
    return None


def _odd(rows: list[Row], word: str) -> list[int]:
    """The ranks outside a clear majority."""
    by_value: dict[str, list[int]] = {}
    for row in rows:
        by_value.setdefault(getattr(row, word), []).extend(row.ranks)
    total = sum(len(ranks) for ranks in by_value.values())
    most = max(by_value.values(), key=len)
    return (
        sorted(rank for ranks in by_value.values() if ranks is not most for rank in ranks)
        if len(most) * 2 > total
        else []
    )


def _rows(name: str, sequence: int, members: list[Recording]) -> list[Row]:
    rows: dict[tuple[str, str, str, bool], Row] = {}
    for recording in members:
        operation = _at(recording, name, sequence)
        if operation is not None:
            key = (operation.operation, operation.sizes, operation.dtypes, operation.completed)
            row = rows.setdefault(key, Row(name, sequence, *key))
            row.ranks.append(recording.rank)
    return list(rows.values())


def _at(recording: Recording, name: str, sequence: int) -> Recorded | None:
    for operation in reversed(recording.operations):
        if operation.group == name and operation.sequence == sequence and not operation.point_to_point:
            return operation
    return None


def _last(recording: Recording, name: str) -> int:
    own = [
        operation.sequence
        for operation in recording.operations
        if operation.group == name and not operation.point_to_point
    ]
    return max([*own, recording.enqueued.get(name, 0), 0])
