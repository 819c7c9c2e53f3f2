"""Keeps a worker's session number from one call to the next, so that ``SESSION=2`` means what was read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from harness.breakpoints.decide import numbered
from harness.breakpoints.model import Worker
from harness.places import write_whole


def of(found: Iterable[Worker], folder: Path) -> dict[str, int]:
    """The number of each worker by its key; what is new gets the next ones."""
    path = folder / "sessions.json"
    try:
        before = {str(key): int(number) for key, number in json.loads(path.read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        before = {}
    numbers = numbered(found, before)
    if numbers != before:
        try:
            write_whole(path, json.dumps(numbers))
        except OSError:
            pass  # a read-only place: the numbers are only less steady then
    return numbers
