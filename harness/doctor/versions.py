"""Versions, compared by their first two numbers."""

from __future__ import annotations


def numbers(version: str) -> tuple[int, int]:
    """The first two numbers of a version: ``v2.26.1-4`` and ``20.10.24+dfsg1`` have them like all others."""
    parts = version.lstrip("v").replace("+", ".").replace("-", ".").split(".")
    digits = [int("".join(c for c in part if c.isdigit()) or 0) for part in parts]
    return digits[0], digits[1] if len(digits) > 1 else 0
