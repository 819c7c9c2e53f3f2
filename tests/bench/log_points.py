"""What a log point costs the loop that it is in: at 10 hits a second, and after it is gone; CPU time, as ratios."""

from __future__ import annotations

import importlib.util
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from harness.breakpoints.inside import tracing

# One step is about a millisecond of Python: a hundred steps to each hit are about 10 hits a second.
PROGRAM = """
def step(number):
    total = 0
    for i in range(12_000):
        total += i % 7
    return total
"""
STEPS, ROUNDS = 100, 41
DURING, AFTER = 1.05, 1.01


def run() -> bool:
    """Measure and print; whether the goals are met."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "drydock_bench_loop.py"
        path.write_text(PROGRAM)
        spec = importlib.util.spec_from_file_location("drydock_bench_loop", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        during, after = [], []
        for _ in range(ROUNDS):
            # Through the module each time: a log point may put other code into the function.
            before = _seconds(module.step)
            ours, theirs = socket.socketpair()
            question = {"file": path.name, "line": 6, "if": "number % 100 == 0", "log": "{total}", "n": 10**6}
            thread = threading.Thread(target=_serve, args=(theirs, question))
            thread.start()
            ours.recv(4096)  # it is armed
            during.append(_seconds(module.step) / before)
            ours.shutdown(socket.SHUT_RDWR)
            thread.join()
            after.append(_seconds(module.step) / before)
        del sys.modules[spec.name]
    on, off = statistics.median(during), statistics.median(after)
    how = "sys.monitoring" if hasattr(sys, "monitoring") else "rewritten function"
    print(f"log points, Python {sys.version_info[0]}.{sys.version_info[1]} ({how}), share of the loop's CPU time:")
    print(f"  while on {on - 1:+.1%} (goal ≤ {DURING - 1:.0%}), after {off - 1:+.1%} (goal ≤ {AFTER - 1:.0%})")
    return on <= DURING and off <= AFTER


def _serve(connection: socket.socket, question: dict[str, object]) -> None:
    with connection:
        try:
            tracing.serve(connection, question)
        except OSError:
            pass  # the other end has hung up


def _seconds(step: Callable[[int], int]) -> float:
    """CPU seconds of this thread for the steps; the faster of two."""
    best = float("inf")
    for _ in range(2):
        began = time.thread_time()
        for number in range(STEPS):
            step(number)
        best = min(best, time.thread_time() - began)
    return best


if __name__ == "__main__":
    run()
