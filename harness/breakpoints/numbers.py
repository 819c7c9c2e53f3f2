"""Keeps a worker's session number from one call to the next, so that ``SESSION=2`` means what was read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from harness.breakpoints.decide import numbered
from harness.breakpoints.model import Worker


def of(found: Iterable[Worker], folder: Path) -> dict[str, int]:
    """The number of each worker by its key; what is new gets the next ones."""
    path = folder / "sessions.json"
    try:
        before = {str(key): int(number) for key, number in json.loads(path.read_text()).items()}
    except (OSError, ValueError, AttributeError):
        before = {}
    numbers = numbered(found, before)
    if numbers != before:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            fresh = path.with_name(f".{path.name}.{os.getpid()}")
            fresh.write_text(json.dumps(numbers))
            fresh.replace(path)
        except OSError:
            pass  # a read-only place: the numbers are only less steady then
    return numbers
