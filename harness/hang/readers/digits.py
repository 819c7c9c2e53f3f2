"""Numbers out of foreign text: whatever stands there, no number of a process, rank or line has more than 18 digits."""

from __future__ import annotations


def whole(text: str | bytes | None) -> int:
    """The number that some digits say; 0 where they are none, or say one that nothing has."""
    return int(text) if text and text.isdigit() and text.isascii() and len(text) <= 18 else 0
