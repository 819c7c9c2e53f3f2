"""Numbers on an axis."""

from __future__ import annotations

import math


def ticks(most: float, about: int = 5) -> list[float]:
    """Round numbers from 0 to at least ``most``, some ``about`` of them."""
    if not math.isfinite(most) or most <= 0:
        return [0.0, 1.0]
    step = 10.0 ** math.floor(math.log10(most / about))
    step *= next(factor for factor in (1, 2, 5, 10) if most / (step * factor) <= about)
    return [number * step for number in range(math.ceil(most / step - 1e-9) + 1)]


def label(value: float) -> str:
    """A tick's number, as short as it can be written."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            shown = value / (1e3 if unit == "k" else size)
            return f"{shown:.3g}{unit}"
    return f"{value:.4g}"
