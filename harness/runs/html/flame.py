"""Stacks with seconds as a flame graph: who called whom lies above each other, the width is the time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from harness.runs.html.page import printable, seconds
from harness.runs.html.svg import element, picture

_WIDTH, _ROW, _LETTER = 1100, 19, 7.3
DEEPEST = 64
# Narrower than this nobody sees it; it stays in the sum of what is above it.
_NARROWEST = 0.7


@dataclass(frozen=True)
class Frame:
    """One frame of a stack, as it is shown.

    Args:
        text: what stands in its box.
        place: file and line, for those who look closer.
        own: the user's code, not a library's.
    """

    text: str
    place: str = ""
    own: bool = False


@dataclass
class Node:
    """A frame with all that was called from it.

    Args:
        seconds: spent in it and below.
    """

    frame: Frame
    seconds: float = 0.0
    below: dict[Frame, Node] = field(default_factory=dict)


def merge(stacks: Iterable[tuple[Sequence[Frame], float]], root: str = "all") -> Node:
    """Stacks (outermost first) with their seconds as one tree."""
    tree = Node(Frame(root))
    for frames, spent in stacks:
        if spent <= 0:
            continue
        tree.seconds += spent
        node = tree
        for frame in frames[:DEEPEST]:
            node = node.below.setdefault(frame, Node(frame))
            node.seconds += spent
    return tree


def draw(tree: Node, label: str, say: Callable[[float], str] = seconds) -> Markup:
    """The tree as a picture; a click, or Enter, on a box makes it as wide as the page (``script.js``).

    Args:
        say: puts a box's value into words; "" where its frame says all.
    """
    if tree.seconds <= 0:
        return Markup("")
    boxes = list(_boxes(tree, 0, 0.0, tree.seconds))
    depth = max(level for _, level, _ in boxes) + 1
    parts = [_box(node, level, start, tree.seconds, say) for node, level, start in boxes]
    return picture(_WIDTH, depth * _ROW, label, *parts, class_="flame", role="group")


def _boxes(node: Node, level: int, start: float, whole: float) -> Iterator[tuple[Node, int, float]]:
    if node.seconds / whole * _WIDTH < _NARROWEST:
        return
    yield node, level, start
    for child in sorted(node.below.values(), key=lambda child: -child.seconds):
        yield from _boxes(child, level + 1, start, whole)
        start += child.seconds


def _box(node: Node, level: int, start: float, whole: float, say: Callable[[float], str]) -> Markup:
    x, width = start / whole * _WIDTH, node.seconds / whole * _WIDTH
    text = printable(node.frame.text)
    value = say(node.seconds)
    share = f"{value}, {node.seconds / whole:.0%}" if value else ""
    about = "\n".join(filter(None, [text, printable(node.frame.place), share]))
    letters = int((width - 6) / _LETTER)
    shown = text if len(text) <= letters else (text[: letters - 1] + "…" if letters > 3 else "")
    return element(
        "g",
        element("title", about),
        element("rect", x=x, y=level * _ROW, width=max(width - 0.6, 0.4), height=_ROW - 1, rx=2),
        element("text", shown, x=x + 4, y=level * _ROW + 13),
        class_="box own" if node.frame.own else "box",
        tabindex=0,
        role="button",
        data_x=round(start / whole, 6),
        data_w=round(node.seconds / whole, 6),
        data_y=level,
        data_text=text,
    )
