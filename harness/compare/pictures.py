"""Pictures of a comparison as SVG: both sides' log-probs, the differences, and where they sit."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from harness.runs.html import scale
from harness.runs.html.svg import element, picture

_WIDTH, _HEIGHT = 720, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 16, 12, 42
_BARS = 41


def scatter(points: Sequence[tuple[float, float]], one: str, other: str) -> Markup:
    """Log-probs of the same tokens by both sides; what agrees lies on the line.

    Args:
        points: (the engine's, the trainer's).
    """
    if not points:
        return Markup("")
    lowest = min(min(point) for point in points)
    steps = [-tick for tick in scale.ticks(max(-lowest, 0.5), 6)]
    edge = steps[-1]
    parts = _frame(
        [(_x(tick, edge, 0.0), scale.label(tick)) for tick in steps],
        [(_y(tick, edge, 0.0), scale.label(tick)) for tick in steps],
        f"log-prob: {one}", f"log-prob: {other}",
    )  # fmt: skip
    ends = {"x1": _x(edge, edge, 0.0), "y1": _y(edge, edge, 0.0), "x2": _x(0.0, edge, 0.0), "y2": _y(0.0, edge, 0.0)}
    parts.append(element("line", class_="mark", **ends))
    parts += [element("circle", class_="dot", cx=_x(a, edge, 0.0), cy=_y(b, edge, 0.0), r=2) for a, b in points]
    return picture(_WIDTH, _HEIGHT, f"{len(points)} tokens: log-probs of {one} and {other}", *parts)


def differences(values: Sequence[float]) -> Markup:
    """How often which difference occurs; what lies beyond the middle 99 % is in the outermost bars."""
    if not values:
        return Markup("")
    ordered = sorted(abs(value) for value in values)
    edge = max(ordered[min(len(ordered) - 1, math.floor(0.99 * len(ordered)))], 1e-6)
    bars = [0] * _BARS
    for value in values:
        place = (min(max(value, -edge), edge) + edge) / (2 * edge)
        bars[min(int(place * _BARS), _BARS - 1)] += 1
    up = scale.ticks(max(bars), 4)
    across = [-edge, -edge / 2, 0.0, edge / 2, edge]
    parts = _frame(
        [(_x(tick, -edge, edge), f"{tick:.2g}") for tick in across],
        [(_y(tick, 0.0, up[-1]), scale.label(tick)) for tick in up],
        "Δ: the trainer's log-prob less the engine's", "tokens",
    )  # fmt: skip
    width = (_WIDTH - _LEFT - _RIGHT) / _BARS
    for number, many in enumerate(bars):
        if many:
            top = _y(many, 0.0, up[-1])
            start = -edge + 2 * edge * number / _BARS
            title = element("title", f"Δ from {start:.3g} to {start + 2 * edge / _BARS:.3g}: {many} tokens")
            parts.append(
                element("rect", title, class_="bar", x=_LEFT + number * width + 0.5, y=top, width=width - 1,
                        height=_HEIGHT - _BOTTOM - top)
            )  # fmt: skip
    return picture(_WIDTH, _HEIGHT, f"histogram of the differences of {len(values)} tokens", *parts)


def by_position(rows: Sequence[tuple[int, int, int, float]], of: str) -> Markup:
    """Mean |Δ| over positions that double from bar to bar.

    Args:
        rows: (from, to, tokens, mean).
        of: what positions are counted in.
    """
    drawn = [row for row in rows if row[2] and math.isfinite(row[3])]
    if not drawn:
        return Markup("")
    up = scale.ticks(max(row[3] for row in drawn), 4)
    width = (_WIDTH - _LEFT - _RIGHT) / len(drawn)
    names = [(_LEFT + (number + 0.5) * width, _range(row)) for number, row in enumerate(drawn)]
    parts = _frame(names, [(_y(tick, 0.0, up[-1]), scale.label(tick)) for tick in up], of, "mean |Δ|")
    for number, row in enumerate(drawn):
        top = _y(row[3], 0.0, up[-1])
        title = element("title", f"tokens {_range(row)}: mean |Δ| {row[3]:.3g}, {row[2]} tokens")
        parts.append(
            element("rect", title, class_="bar", x=_LEFT + number * width + 2, y=top, width=width - 4,
                    height=_HEIGHT - _BOTTOM - top)
        )  # fmt: skip
    return picture(_WIDTH, _HEIGHT, f"mean absolute difference by {of}", *parts)


def _range(row: tuple[int, int, int, float]) -> str:
    return str(row[0]) if row[0] == row[1] else f"{row[0]}–{row[1]}"


def _frame(
    across: Sequence[tuple[float, str]], up: Sequence[tuple[float, str]], name_across: str, name_up: str
) -> list[Markup]:
    bottom = _HEIGHT - _BOTTOM
    parts = [element("line", class_="grid", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y) for y, _ in up]
    parts += [element("text", text, class_="tick", x=_LEFT - 6, y=y + 4, text_anchor="end") for y, text in up]
    parts += [element("text", text, class_="tick", x=x, y=bottom + 16, text_anchor="middle") for x, text in across]
    middle = (_TOP + bottom) / 2
    parts.append(
        element(
            "text", name_across, class_="axis", x=(_LEFT + _WIDTH - _RIGHT) / 2, y=_HEIGHT - 6, text_anchor="middle"
        )
    )
    parts.append(
        element(
            "text", name_up, class_="axis", x=14, y=middle, text_anchor="middle", transform=f"rotate(-90 14 {middle})"
        )
    )
    return parts


def _x(value: float, first: float, last: float) -> float:
    return _LEFT + (value - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT)


def _y(value: float, first: float, last: float) -> float:
    return _HEIGHT - _BOTTOM - (value - first) / (last - first) * (_HEIGHT - _BOTTOM - _TOP)
