"""An interpreter with torch, for the programs of the hang scenarios."""

from __future__ import annotations

import os

from harness.hang.zoo.interpreter import VARIABLE
from tests.support.locked_python import locked_python


def torch_python() -> str:
    """The interpreter; the test is skipped where torch can't be had."""
    return os.environ.get(VARIABLE) or str(locked_python("torch"))
