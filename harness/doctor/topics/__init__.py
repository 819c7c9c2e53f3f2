"""All topics in the order in which they are shown, and their checks.

Each file here that has ``CHECKS`` is taken, by itself; its name begins with its topic's. One more check is an entry
there, or one more file: CONTRIBUTING.md shows it.
"""

from __future__ import annotations

import importlib
import pkgutil

from harness.doctor.check import Check
from harness.errors import UsageError

_FILES = [importlib.import_module(f"{__name__}.{file.name}") for file in pkgutil.iter_modules(__path__)]
_FOUND: list[Check] = [check for file in _FILES for check in getattr(file, "CHECKS", ())]

# In the order in which they are shown. One that isn't named here comes last, under its own name.
TITLES: dict[str, str] = {
    "machine": "Machine",
    "disk": "Disks",
    "docker": "Docker",
    "ports": "Ports",
    "network": "Network",
    "gpu": "GPU",
    "stack": "Stack",
    "model": "Model",
    "training": "Training",
    "settings": "Settings",
    "debugger": "Debugger",
}
# Looked at where they are named only: they take longer than all others together.
ON_REQUEST = frozenset({"debugger"})

TITLES |= {check.topic: check.topic.capitalize() for check in _FOUND if check.topic not in TITLES}

CHECKS: tuple[Check, ...] = tuple(sorted(_FOUND, key=lambda check: list(TITLES).index(check.topic)))


def select(topics: str) -> tuple[Check, ...]:
    """The checks of some topics, given with commas between; for "" all of them save what is looked at on request.

    Raises:
        UsageError: there is no such topic; names those that there are.
    """
    wanted = [topic.strip().lower() for topic in topics.split(",") if topic.strip()]
    for topic in wanted:
        if topic not in TITLES:
            raise UsageError(
                f"The doctor has no topic `{topic}`.",
                consequence="Nothing was looked at.",
                mend=f"make doctor TOPIC={'|'.join(TITLES)}   # or several, with commas between",
            )
    return tuple(check for check in CHECKS if check.topic in (wanted or TITLES.keys() - ON_REQUEST))
