"""A terminal that isn't UTF-8 gets what it can show, and programs get the whole document."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest


def harness(encoding: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    told = {**os.environ, "PYTHONIOENCODING": encoding}
    return subprocess.run([sys.executable, "-m", "harness", *arguments], env=told, capture_output=True, check=False)


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "gbk"])
def test_no_sign_ends_a_verb(encoding: str) -> None:
    done = harness(encoding, "doctor", "--topic", "machine,nonsense")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"The doctor has no topic" in done.stderr
    assert b"Traceback" not in done.stderr
    done = harness(encoding, "doctor", "--topic", "settings")
    assert b"itself failed" not in done.stderr
    assert b" wrong, " in done.stdout
    document = json.loads(harness(encoding, "doctor", "--topic", "settings", "--json").stdout.decode("ascii"))
    assert document["findings"]
