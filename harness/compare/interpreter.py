"""The Python that computes the trainer's side: a named one, this one, or one made from a lock of the clone."""

from __future__ import annotations

import importlib.util
import shutil
import sys

from harness import console
from harness.errors import BadSetting, LibraryMissing
from harness.places import home
from harness.processes.locked import locked

VARIABLE = "COMPARE_PYTHON"


def python_for(named: str) -> str:
    """An interpreter with torch and transformers.

    Args:
        named: what ``COMPARE_PYTHON`` says; best the one that trains.

    Raises:
        BadSetting: there is no such program.
        LibraryMissing: none is here, and none can be made.
    """
    if named:
        found = shutil.which(named)
        if found is None:
            raise BadSetting(f"{VARIABLE}={named} is no program that can be started")
        return found
    if all(importlib.util.find_spec(name) is not None for name in ("torch", "transformers")):
        return sys.executable
    if not (home() / "docker/locks/reference.txt").is_file():
        raise LibraryMissing(
            "torch and transformers aren't installed here",
            consequence="The trainer's side can't be computed.",
            mend=f"{VARIABLE}=PYTHON   # the interpreter of your training, or any with torch and transformers",
        )
    return locked("reference", variable=VARIABLE, tell=_tell)


def _tell(what: str) -> None:
    console.note(
        f"torch and transformers aren't here: {what} (some minutes, 1 GB; {VARIABLE}=PYTHON names one that has them)"
    )
