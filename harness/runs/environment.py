"""What this process runs on: the part of a run's fingerprint that needs neither Docker nor a GPU."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from harness import __version__

# Set in our images; says which one a report came from.
_FROM_ENVIRONMENT = ("DRYDOCK_IMAGE", "DRYDOCK_BASE", "ENGINE", "MODEL")


def of_this_process() -> dict[str, Any]:
    """Versions of Drydock, Python, the system and every installed package."""
    packages = dict(filter(None, map(_name_and_version, importlib.metadata.distributions())))
    return {
        "drydock": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "system": platform.platform(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "stack": _stack(),
        "environment": {name: os.environ[name] for name in _FROM_ENVIRONMENT if os.environ.get(name)},
        "packages": dict(sorted(packages.items())),
    }


def _name_and_version(package: importlib.metadata.Distribution) -> tuple[str, str] | None:
    """By the head of its description; ``package.version`` reads all of it, which takes a third of a second for all."""
    head = (package.read_text("METADATA") or package.read_text("PKG-INFO") or "").partition("\n\n")[0]
    fields = dict(line.partition(": ")[::2] for line in head.splitlines() if line.startswith(("Name: ", "Version: ")))
    return (fields["Name"].strip().lower(), fields.get("Version", "").strip()) if fields.get("Name") else None


def _stack() -> dict[str, Any]:
    """What `up` told its containers of images and weights; nothing elsewhere."""
    try:
        found = json.loads(Path(os.environ["DRYDOCK_STACK_FILE"]).read_text(encoding="utf-8"))
    except (KeyError, OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


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
