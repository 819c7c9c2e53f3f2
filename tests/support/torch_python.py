"""An interpreter with torch, for the programs of the hang scenarios."""

from __future__ import annotations

import os

import pytest

from harness.errors import LibraryMissing
from harness.hang.zoo.interpreter import VARIABLE, locked


def torch_python() -> str:
    """The interpreter; the test is skipped where torch can't be had."""
    try:
        return os.environ.get(VARIABLE) or locked("torch")
    except LibraryMissing as error:
        pytest.skip(str(error))
