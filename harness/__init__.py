"""Drydock's harness: serve, check, break, hang-dump and compare for reinforcement learning on language models."""

from __future__ import annotations

__version__ = "0.1.0"

# True for type checkers only: in the images every Python process imports this file, and typing takes milliseconds.
MYPY = False
if MYPY:
    from typing import Any


def watch(after: str = "10m", **options: Any) -> Any:
    """Watch this program from beside it: ``with harness.watch(after="10m"): train()``.

    When nothing gets on for that long, all its stacks are dumped once; the verdict is printed and kept in ``runs/``.
    The program itself is never ended. The options are those of ``harness.hang.watch.inside.watch``.
    """
    # By name: this file is imported by everything, and may itself depend on nothing.
    from importlib import import_module

    return import_module("harness.hang.watch.inside").watch(after, **options)
