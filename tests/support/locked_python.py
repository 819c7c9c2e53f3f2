"""An interpreter with the packages of one of our locks, for what can't share the clone's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import LibraryMissing
from harness.processes.locked import locked


def locked_python(name: str) -> Path:
    """The interpreter with the packages of ``docker/locks/NAME.txt``; the test is skipped where they can't be had."""
    try:
        return Path(locked(name, variable="PYTHON"))
    except LibraryMissing as error:
        pytest.skip(str(error))
