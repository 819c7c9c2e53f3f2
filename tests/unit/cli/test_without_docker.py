"""Verbs that also run where the harness is a plain wheel or in `dev`: their modules do without Docker's packages."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import importlib, sys
for missing in ("docker", "filelock", "huggingface_hub"):
    sys.modules[missing] = None
importlib.import_module(f"harness.cli.{sys.argv[1]}")
"""
VERBS = (
    *(
        "attach",
        "breakpoints",
        "check",
        "diagnose",
        "doctor",
        "hang_dump",
        "lint",
        "report",
        "runs",
        "settings",
        "trace",
    ),
)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_s_module_is_imported_without_them(verb: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, verb], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
