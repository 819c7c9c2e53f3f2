"""How each kind of server is asked for log-probs by token ids, and where they stand in its answer; a file each. Pure.

A further engine is one file with a class that has what ``base.Dialect`` asks for, as ``DIALECT``, and when it is
``TRIED``: lower numbers first. It is found by its place, and tests/unit/compare/dialects holds it against the protocol.
Nothing else in ``compare`` knows engines apart.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from harness.compare.dialects.base import Decoded, Dialect, NotThere, Request, Scored, counted
from harness.compare.dialects.messages import in_a_template
from harness.compare.dialects.reading import read

_FILES = [importlib.import_module(f"{__name__}.{file.name}") for file in pkgutil.iter_modules(__path__)]

# In the order in which a server is tried: who can more first, since a later one may fit as well and see less.
DIALECTS: tuple[Callable[[str], Dialect], ...] = tuple(
    file.DIALECT for file in sorted((file for file in _FILES if hasattr(file, "DIALECT")), key=lambda file: file.TRIED)
)

__all__ = ["DIALECTS", "Decoded", "Dialect", "NotThere", "Request", "Scored", "counted", "in_a_template", "read"]
