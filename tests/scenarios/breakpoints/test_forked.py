"""What the hook does in a child that a process forks: nothing, where nobody is asked there."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.harness import CLONE

# A thread is in the middle of importing the part that answers questions, while another one forks.
PROGRAM = """
import importlib.abc, importlib.util, os, sys, threading
from harness.breakpoints import inside
inside.install()
NAME = "harness.breakpoints.inside.agent"
begun, forked = threading.Event(), threading.Event()

class Slow(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        return importlib.util.spec_from_loader(name, self) if name == NAME else None

    def exec_module(self, module):
        begun.set()
        forked.wait()

sys.meta_path.insert(0, Slow())
importing = threading.Thread(target=__import__, args=(NAME,))
importing.start()
begun.wait()
child = os.fork()
if child == 0:
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
forked.set()
importing.join()
"""


def test_a_fork_in_the_middle_of_an_import_comes_to_its_end() -> None:
    """Else a child would wait for ever for a thread that it doesn't have."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": str(CLONE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stdout == "7\n", ended.stderr
