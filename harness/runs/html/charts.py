"""A histogram, and values over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.runs.html import scale
from harness.runs.html.page import seconds
from harness.runs.html.svg import element, picture

_WIDTH, _HEIGHT = 720, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 16, 40
_BARS = 40
# More points than pixels help nobody.
_POINTS = 700


@dataclass(frozen=True)
class Series:
    """Values over time.

    Args:
        name: for the legend.
        points: (time, value), in order of time.
        kind: class for the style: ``one``, ``two``, ``three`` … or ``asked`` for what was asked for.
    """

    name: str
    points: Sequence[tuple[float, float]]
    kind: str = "one"


def histogram(values: Sequence[float], *, of: str, marks: Mapping[str, float] | None = None) -> Markup:
    """How often spans of time of each length occurred.

    Args:
        values: seconds; what is no finite number is left out.
        of: what was counted, in the plural: runs, calls.
        marks: lines to draw at some lengths, by their names: ``p50``, ``p95``.
    """
    finite = [value for value in values if math.isfinite(value) and value >= 0]
    if not finite:
        return Markup("")
    across = scale.ticks(max(finite), 8)
    width = across[-1] / _BARS
    bars = [0] * _BARS
    for value in finite:
        bars[min(int(value / width), _BARS - 1)] += 1
    up = scale.ticks(max(bars), 4)
    pixel = (_WIDTH - _LEFT - _RIGHT) / _BARS
    parts = [*_axes(across, up, f"seconds a {of.removesuffix('s')} took", of)]
    for number, many in enumerate(bars):
        if many:
            top = _y(many, up[-1])
            span = f"{seconds(number * width)} to {seconds((number + 1) * width)}: {many} {of}"
            place = {"x": _LEFT + number * pixel + 0.5, "y": top, "width": pixel - 1, "height": _HEIGHT - _BOTTOM - top}
            parts.append(element("rect", element("title", span), class_="bar", **place))
    for number, (name, value) in enumerate(sorted((marks or {}).items(), key=lambda mark: mark[1])):
        x = _x(min(value, across[-1]), across[-1])
        parts.append(element("line", class_="mark", x1=x, x2=x, y1=_TOP, y2=_HEIGHT - _BOTTOM))
        # Marks often lie close together, so their names take turns in height.
        anchor = "end" if x > _WIDTH - 120 else "start"
        text = f"{name} {seconds(value)}"
        shift = -4 if anchor == "end" else 4
        parts.append(
            element("text", text, class_="mark", x=x + shift, y=_TOP + 10 + 13 * (number % 3), text_anchor=anchor)
        )
    return picture(_WIDTH, _HEIGHT, f"histogram: how long {len(finite)} {of} took", *parts)


def over_time(series: Sequence[Series], *, unit: str) -> Markup:
    """Values over time, one line a series.

    Args:
        unit: what the values count.
    """
    drawn = [one for one in series if one.points]
    if not drawn:
        return Markup("")
    across = scale.ticks(max(point[0] for one in drawn for point in one.points), 8)
    up = scale.ticks(max(point[1] for one in drawn for point in one.points), 4)
    parts = [*_axes(across, up, "seconds", unit)]
    for one in drawn:
        path = " ".join(f"{_x(t, across[-1]):.1f},{_y(value, up[-1]):.1f}" for t, value in _thinned(one.points))
        most = max(value for _, value in one.points)
        title = element("title", f"{one.name}: at most {scale.label(most)}")
        parts.append(element("polyline", title, class_=f"line {one.kind}", points=path, fill="none"))
    return picture(_WIDTH, _HEIGHT, f"{', '.join(one.name for one in drawn)} over time", *parts)


def legend(series: Sequence[Series]) -> Markup:
    """What the lines of ``over_time`` are."""
    items = [element("li", element("span", class_=f"key {one.kind}"), " ", one.name) for one in series if one.points]
    return element("ul", *items, class_="legend")


def _axes(across: Sequence[float], up: Sequence[float], name_across: str, name_up: str) -> list[Markup]:
    bottom = _HEIGHT - _BOTTOM
    parts = []
    for value in up:
        y = _y(value, up[-1])
        parts.append(element("line", class_="grid", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y))
        parts.append(element("text", scale.label(value), class_="tick", x=_LEFT - 6, y=y + 4, text_anchor="end"))
    for value in across:
        parts.append(
            element(
                "text", scale.label(value), class_="tick", x=_x(value, across[-1]), y=bottom + 16, text_anchor="middle"
            )
        )
    parts.append(
        element(
            "text", name_across, class_="axis", x=(_LEFT + _WIDTH - _RIGHT) / 2, y=_HEIGHT - 6, text_anchor="middle"
        )
    )
    middle = (_TOP + bottom) / 2
    parts.append(
        element(
            "text", name_up, class_="axis", x=14, y=middle, text_anchor="middle", transform=f"rotate(-90 14 {middle})"
        )
    )
    return parts


def _x(value: float, most: float) -> float:
    return _LEFT + value / most * (_WIDTH - _LEFT - _RIGHT)


def _y(value: float, most: float) -> float:
    return _HEIGHT - _BOTTOM - value / most * (_HEIGHT - _BOTTOM - _TOP)


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Few enough points to draw; of each stretch its lowest and its highest, so that no peak is lost."""
    if len(points) <= _POINTS:
        return list(points)
    size = math.ceil(len(points) / (_POINTS / 2))
    kept: list[tuple[float, float]] = []
    for start in range(0, len(points), size):
        stretch = points[start : start + size]
        ends = {min(stretch, key=lambda point: point[1]), max(stretch, key=lambda point: point[1])}
        kept += sorted(ends)
    return kept
