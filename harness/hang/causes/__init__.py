"""The causes and the rules that find them: each file here that has ``CAUSES`` or ``RULES`` is taken, by itself.

A rule looks at a scene and gives findings, each with the code of a cause; ``decide`` weighs them. One more cause is one
more file here: CONTRIBUTING.md shows it.
"""

from __future__ import annotations

import importlib
import pkgutil

from harness.hang.causes.finding import Cause, Finding, Rule

_FILES = [importlib.import_module(f"{__name__}.{file.name}") for file in pkgutil.iter_modules(__path__)]

CAUSES: dict[str, Cause] = {cause.code: cause for file in _FILES for cause in getattr(file, "CAUSES", ())}
RULES: tuple[Rule, ...] = tuple(rule for file in _FILES for rule in getattr(file, "RULES", ()))

__all__ = ["CAUSES", "RULES", "Cause", "Finding", "Rule"]
