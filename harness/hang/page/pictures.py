"""The page's pictures: every process as a cell in its group's colour, and the merged stacks as an icicle."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from harness.hang.verdict import ProcessRow, Verdict
from harness.runs.html import flame
from harness.runs.html.svg import element

# The style sheet has so many colours; what has no group (gone, not sampled) has one of its own.
COLOURS = 12
_WIDTH = 1100
_LARGEST, _SMALLEST = 26, 5
# A group is at least this wide in the icicle: one rank of ten thousand is what people look for.
_LEAST_SHARE = 0.03


def colour(group: int | None) -> str:
    """The class that colours a group."""
    return "gone" if group is None else f"g{group % COLOURS}"


def grid(verdict: Verdict) -> Markup:
    """All processes, ranks first and in order; one path a group, so that ten thousand cells stay light.

    ``hang.js`` finds the cell under the pointer by arithmetic; its list is in ``data-cells``.
    """
    rows = sorted(verdict.processes, key=_place)
    if not rows:
        return Markup("")
    cell = max(_SMALLEST, min(_LARGEST, int(math.sqrt(_WIDTH * 320 / len(rows)))))
    columns = _WIDTH // cell
    named = set(verdict.laggards)
    paths: dict[str, list[str]] = {}
    marks: list[str] = []
    for number, row in enumerate(rows):
        x, y = number % columns * cell, number // columns * cell
        paths.setdefault(colour(row.group), []).append(f"M{x} {y}h{cell - 1}v{cell - 1}h-{cell - 1}z")
        if row.id in named:
            marks.append(f"M{x} {y}h{cell - 1}v{cell - 1}h-{cell - 1}z")
    drawn = [element("path", d="".join(steps), class_=f"cell {name}") for name, steps in paths.items()]
    if marks:
        drawn.append(element("path", d="".join(marks), class_="named"))
    drawn.append(element("rect", x=0, y=0, width=cell - 1, height=cell - 1, class_="chosen"))
    height = math.ceil(len(rows) / columns) * cell
    return element(
        "svg",
        *drawn,
        viewBox=f"0 0 {_WIDTH} {height}",
        role="img",
        tabindex=0,
        class_="ranks",
        aria_label=f"{len(rows)} processes, coloured by group; arrow keys go from one to the next",
        data_size=cell,
        data_columns=columns,
        data_cells=json.dumps([_told(row) for row in rows], separators=(",", ":"), ensure_ascii=False),
    )


def _place(row: ProcessRow) -> tuple[bool, bool, int, str]:
    """Ranks by number, their children behind all ranks, then the others."""
    return (row.rank is None, row.role == "child", row.rank if row.rank is not None else 0, row.id)


def _told(row: ProcessRow) -> list[Any]:
    name = f"{row.id} ({row.role})" if row.role == "child" else row.id
    return [name, -1 if row.group is None else row.group, *([row.note] if row.note else [])]


def icicle(tree: Sequence[dict[str, Any]], label: str) -> Markup:
    """The merged stacks, outermost call at the top; as wide as many are in it, and never too narrow to be seen."""
    total = sum(int(node["count"]) for node in tree)
    if not total:
        return Markup("")
    least = total * _LEAST_SHARE
    root = flame.Node(flame.Frame(f"all: {total}"))
    for node in tree:
        _add(root, node, least, 0)
    return flame.draw(root, label, say=lambda _: "")


def _add(above: flame.Node, node: dict[str, Any], least: float, depth: int) -> float:
    # Two calls with equal text under one call are one box.
    frame = flame.Frame(f"{node['frame']}   {node['who']}", place=f"{node['count']}: {node['who']}", own=_is_own(node))
    box = above.below.setdefault(frame, flame.Node(frame))
    rest = node["count"] - sum(child["count"] for child in node["children"])
    width = max(float(rest), least) if rest > 0 or not node["children"] else 0.0
    if depth < flame.DEEPEST:
        for child in node["children"]:
            width += _add(box, child, least, depth + 1)
    width = max(width, least)
    box.seconds += width
    if depth == 0:
        above.seconds += width
    return width


def _is_own(node: dict[str, Any]) -> bool:
    """Whether it looks like the user's own code: a plain path, and no library's first folder."""
    file = str(node["frame"]).rpartition("(")[2]
    libraries = ("torch/", "ray/", "asyncio/", "threading.py", "multiprocessing/", "concurrent/", "lib")
    return ".py" in file and not file.startswith(libraries)


def legend(verdict: Verdict) -> list[dict[str, Any]]:
    """Each group's colour, who is in it, and what it waits for."""
    return [
        {"class": colour(number), "number": number, "who": group.who, "wait": group.wait, "count": len(group.ids)}
        for number, group in enumerate(verdict.groups)
    ]
