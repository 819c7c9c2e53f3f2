"""A Python that has what a program needs; made once from a lock of the clone, in ``.drydock/``."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable

from harness.processes.locked import locked

# Names an interpreter that has torch and ray, where one is there already.
VARIABLE = "DRYDOCK_TORCH_PYTHON"


def python_with(needs: Iterable[str]) -> str:
    """An interpreter that can import these packages; this one where it can.

    Raises:
        LibraryMissing: they aren't here and can't be installed.
    """
    wanted = set(needs)
    if all(importlib.util.find_spec(name) is not None for name in wanted):
        return sys.executable
    if named := os.environ.get(VARIABLE):
        return named
    return locked(*(["torch"] if wanted == {"torch"} else ["torch", "ray"]), variable=VARIABLE)
