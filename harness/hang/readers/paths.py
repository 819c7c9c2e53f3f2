"""Shortens file names to what an import statement would say, as py-spy does, so that all dumpers' frames compare."""

from __future__ import annotations

import re
from functools import lru_cache

_PACKAGES = re.compile(r"^.*/(?:site|dist)-packages/")
_STANDARD_LIBRARY = re.compile(r"^.*/(?:lib|lib64)/python\d(?:\.\d+)?/")
_LIBRARY = re.compile(r"[^/\s]*\.so(?:\.[\w.]+)?")


@lru_cache(maxsize=65536)
def short(path: str) -> str:
    """``torch/nn/modules/module.py`` for a package, ``queue.py`` for the standard library, else the last two parts."""
    path = path.replace("\\", "/")
    for prefix in (_PACKAGES, _STANDARD_LIBRARY):
        shorter = prefix.sub("", path)
        if shorter != path:
            return shorter
    if not path.startswith("/"):
        return path
    if ".so" in path and (library := _LIBRARY.search(path)):
        return library.group()
    parts = path.split("/")
    # A framework run from a checkout: /home/me/verl/verl/workers/… ; the last repeated part opens the package.
    for index in range(len(parts) - 2, 0, -1):
        if parts[index] == parts[index - 1]:
            return "/".join(parts[index:])
    return "/".join(parts[-2:]) if len(parts) > 2 and parts[-2] not in ("tmp", "workspace") else parts[-1]
