"""What this process runs on: the part of a run's fingerprint that needs neither Docker nor a GPU."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from typing import Any

from harness import __version__

# Set in our images; says which one a report came from.
_FROM_ENVIRONMENT = ("DRYDOCK_IMAGE", "DRYDOCK_BASE", "ENGINE", "MODEL")


def of_this_process() -> dict[str, Any]:
    """Versions of Drydock, Python, the system and every installed package."""
    packages = {
        name.lower(): distribution.version
        for distribution in importlib.metadata.distributions()
        if (name := distribution.metadata["Name"])
    }
    return {
        "drydock": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "system": platform.platform(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "environment": {name: os.environ[name] for name in _FROM_ENVIRONMENT if os.environ.get(name)},
        "packages": dict(sorted(packages.items())),
    }


def secrets_of(environment: dict[str, str]) -> list[str]:
    """Values in an environment whose names say that they are secrets; for the redactor."""
    ends = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_PASSWD", "_CREDENTIALS")
    whole = ("TOKEN", "PASSWORD", "SECRET")
    return [
        value
        for name, value in environment.items()
        if name.upper().endswith(ends) or name.upper() in whole
        # A path to a secret is none, and would black out half of every stack.
        if not value.startswith(("/", "./", "~"))
    ]
