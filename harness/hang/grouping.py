"""Groups equal stacks, writes rank sets short, and merges stacks into a prefix tree."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.hang.model import Frame

_RANK = re.compile(r"rank(\d+)$")


def ranges(numbers: Iterable[int]) -> str:
    """``[0, 1, 2, 9]`` as ``0-2,9``."""
    parts: list[str] = []
    start = previous = None
    for number in sorted(set(numbers)):
        if previous is not None and number == previous + 1:
            previous = number
            continue
        if start is not None:
            parts.append(f"{start}-{previous}" if previous != start else f"{start}")
        start = previous = number
    if start is not None:
        parts.append(f"{start}-{previous}" if previous != start else f"{start}")
    return ",".join(parts)


def names(ids: Iterable[str], most: int = 6) -> str:
    """Ids in few words: ``ranks 0-6,9``, ``driver``, ``worker:17, worker:19 and 30 more``."""
    ranks: list[int] = []
    others: list[str] = []
    for name in ids:
        match = _RANK.fullmatch(name)
        if match:
            ranks.append(int(match[1]))
        elif name not in others:
            others.append(name)
    parts: list[str] = []
    if ranks:
        parts.append(f"rank {ranges(ranks)}" if len(set(ranks)) == 1 else f"ranks {ranges(ranks)}")
    parts += others[:most]
    if len(others) > most:
        parts.append(f"{len(others) - most} more")
    return ", ".join(parts)


@dataclass
class Node:
    """A call in the merged tree and who is in it; the outermost call is at the top."""

    frame: Frame
    ids: list[str] = field(default_factory=list)
    children: dict[Frame, Node] = field(default_factory=dict)

    def as_dict(self) -> dict[str, object]:
        """For ``--json`` and the page."""
        return {"frame": str(self.frame), "who": names(self.ids), "count": len(self.ids), "children": [c.as_dict() for c in self.children.values()]}


def tree(stacks: Iterable[tuple[tuple[Frame, ...], list[str]]], lines: bool = True) -> list[Node]:
    """Merge stacks (innermost first, with whoever has them) into prefix trees; without lines, per function and file."""
    roots: dict[Frame, Node] = {}
    for frames, ids in stacks:
        level = roots
        for frame in reversed(frames):
            key = frame if lines else Frame(frame.function, frame.file)
            node = level.setdefault(key, Node(key))
            node.ids += ids
            level = node.children
    return list(roots.values())


def divergence(one: tuple[Frame, ...], other: tuple[Frame, ...]) -> tuple[Frame, Frame] | None:
    """The innermost call that two stacks share, as each has it: same function, other line; None when they share none."""
    shared: tuple[Frame, Frame] | None = None
    for a, b in zip(reversed(one), reversed(other), strict=False):
        if (a.function, a.file) != (b.function, b.file):
            break
        shared = (a, b)
        if a.line != b.line:
            break
    return shared
