"""Where this process runs; light imports only, for the quickest verbs need it."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """The clone this harness belongs to, where ``compose.yaml`` lies; else here; ``DRYDOCK_HOME`` wins."""
    if value := os.environ.get("DRYDOCK_HOME"):
        return Path(value)
    clone = Path(__file__).resolve().parent.parent
    return clone if (clone / "compose.yaml").is_file() else Path.cwd()


def in_container() -> bool:
    """Whether this process runs in a container of ours, where a verb has nothing to hand on to."""
    return bool(os.environ.get("DRYDOCK_IN_CONTAINER"))
