"""Groups equal stacks, writes rank sets short, and merges stacks into a prefix tree."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.hang.model import Frame

_RANK = re.compile(r"rank(\d+)")
# From how many equal steps on a set is written with its step, and how long it may be in a sentence.
_EVENLY_SPACED, _LONGEST_SET = 3, 60


def ranges(numbers: Iterable[int]) -> str:
    """``[0, 1, 2, 9]`` as ``0-2,9``; every eighth of many as ``0-1016:8``."""
    parts: list[str] = []
    rest = sorted(set(numbers))
    position = 0
    while position < len(rest):
        end = _run(rest, position, 1)
        if end == position:
            step = rest[position + 1] - rest[position] if position + 1 < len(rest) else 0
            even = _run(rest, position, step) if step > 1 else position
            if even - position >= _EVENLY_SPACED:
                parts.append(f"{rest[position]}-{rest[even]}:{step}")
                position = even + 1
                continue
        parts.append(f"{rest[position]}" if end == position else f"{rest[position]}-{rest[end]}")
        position = end + 1
    return ",".join(parts)


def _run(numbers: list[int], start: int, step: int) -> int:
    """Where a run of equal steps that begins here ends."""
    end = start
    while end + 1 < len(numbers) and numbers[end + 1] - numbers[end] == step:
        end += 1
    return end


def names(ids: Iterable[str], most: int = 6) -> str:
    """Ids in few words: ``ranks 0-6,9``, ``driver``, ``worker:17, worker:19, 30 more``."""
    ranks: set[int] = set()
    others: dict[str, None] = {}
    for name in ids:
        match = _RANK.fullmatch(name)
        if match:
            ranks.add(int(match[1]))
        else:
            others[name] = None
    parts: list[str] = []
    if ranks:
        parts.append(f"rank {next(iter(ranks))}" if len(ranks) == 1 else f"ranks {_short(ranges(ranks), len(ranks))}")
    parts += list(others)[:most]
    if len(others) > most:
        parts.append(f"{len(others) - most} more")
    return ", ".join(parts)


def _short(text: str, number: int) -> str:
    """A rank set that fits into a sentence."""
    if len(text) <= _LONGEST_SET:
        return text
    return f"{text[:_LONGEST_SET].rpartition(',')[0]},… ({number} in all)"


@dataclass
class Node:
    """A call in the merged tree.

    Attributes:
        groups: numbers of the groups that are in it.
    """

    frame: Frame
    groups: list[int] = field(default_factory=list)
    children: dict[Frame, Node] = field(default_factory=dict)


def tree(stacks: Iterable[tuple[Frame, ...]], lines: bool = True) -> list[Node]:
    """Merge the groups' stacks (innermost first) into prefix trees, outermost call at the top.

    Args:
        lines: keep lines apart; without, calls are merged by function and file.
    """
    roots: dict[Frame, Node] = {}
    for number, frames in enumerate(stacks):
        level = roots
        for frame in reversed(frames):
            key = frame if lines else Frame(frame.function, frame.file)
            node = level.setdefault(key, Node(key))
            node.groups.append(number)
            level = node.children
    return list(roots.values())


def shared_way(stacks: list[tuple[Frame, ...]]) -> int:
    """How many outermost calls all stacks share by function and file; of a single stack none."""
    if len(stacks) < 2:
        return 0
    shared = 0
    for level in zip(*(reversed(stack) for stack in stacks), strict=False):
        if len({(frame.function, frame.file) for frame in level}) > 1:
            break
        shared += 1
    return shared


def divergence(one: tuple[Frame, ...], other: tuple[Frame, ...]) -> tuple[Frame, Frame] | None:
    """The innermost call that two stacks share, as each has it: one function, two lines; None when they share none."""
    shared: tuple[Frame, Frame] | None = None
    for a, b in zip(reversed(one), reversed(other), strict=False):
        if (a.function, a.file) != (b.function, b.file):
            break
        shared = (a, b)
        if a.line != b.line:
            break
    return shared
